"""What must hold after every step of a simulation, whatever happens."""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.model.decisions import Abandon, Action, Admit, Release, Start, Stop
from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Granted, Observation, ReplicaPhase
from bireme.model.status import ConditionType, Phase, Status
from tests.simulation.simulated_replica import Body

FIRST_WAIT = 0.999
"""Seconds from a refusal to the next try, at least."""
MUTABLE_AFTER_END = ("expired", "waiting")


class Violation(AssertionError):
    """A rule that was broken."""


def need(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Ledger:
    """What truly happened, kept apart from what the core believes."""

    def __init__(self) -> None:
        self.bodies: dict[str, Body] = {}
        """Everybody who ever was, by uid."""
        self.succeeded: set[tuple[str, int]] = set()
        """Name and attempt of those who ended well by themselves."""
        self.resumes = 0
        self.crashes = 0
        self.taken: set[str] = set()
        """Uids of those whom something other than their own exit and our own wish befell."""
        self.scales: dict[int, dict[str, int]] = {}
        """The size with which each attempt began."""
        self._crashes: dict[str, int] = {}

    def note(self, body: Body) -> None:
        self.bodies[body.uid] = body
        self.crashes += body.crashes - self._crashes.get(body.uid, 0)
        self._crashes[body.uid] = body.crashes
        if body.phase is ReplicaPhase.SUCCEEDED and not body.stopping:
            self.succeeded.add((body.name, body.attempt))

    @property
    def evictions(self) -> int:
        return len(self.taken)

    def living(self) -> list[Body]:
        """Whoever lives as far as the place can know."""
        return [one for one in self.bodies.values() if not one.phase.is_final and not one.abandoned]


def check_record(ledger: Ledger, job: Job, before: Status, after: Status) -> None:
    """A status is about to be written on top of another."""
    _check_conditions(after)
    if before.completed is not None and _is_called_back(ledger, job, before, after):
        return
    if before.completed is not None:
        _check_final(before, after)
        return
    need(before.attempt <= after.attempt <= before.attempt + 1, "attempts go up one by one")
    need(before.crashes <= after.crashes, "crashes are never taken back")
    need(before.evictions <= after.evictions, "evictions are never taken back")
    need(after.crashes <= ledger.crashes, f"{after.crashes} crashes counted of {ledger.crashes}")
    need(after.evictions <= ledger.evictions, f"{after.evictions} evictions counted of {ledger.evictions}")
    if before.holds(ConditionType.SUSPENDED) and not after.holds(ConditionType.SUSPENDED):
        ledger.resumes += before.started is not None
    elif job.unit is RestartScope.GANG and before.scale not in ({}, scale(job)):
        losses = after.crashes + after.evictions - before.crashes - before.evictions
        ledger.resumes += max(0, after.attempt - before.attempt - losses)
    independent = kinds.of(job).independent
    for name in after.done:
        truly = any(one == name and (independent or at == before.attempt) for one, at in ledger.succeeded)
        need(truly, f"{name} is done although it never succeeded")
    _check_budgets(job, after)
    _check_progress(job, before, after)
    if job.unit is RestartScope.GANG:
        _check_gang(ledger, after)


def check_action(
    ledger: Ledger, job: Job, status: Status, seen: Observation, admission: object, action: Action
) -> None:
    """An action is about to be carried out; the status is the one that was recorded last."""
    match action:
        case Start():
            _check_start(ledger, job, status, admission, action)
        case Stop():
            _check_stop(ledger, job, status, action)
        case Abandon():
            shown = [one for one in seen.replicas if one.uid == action.uid]
            lost = [one.name for one in shown if one.unreachable and one.grace_ends is not None]
            need(lost == [action.replica], f"{action.replica} is struck off and is not lost")
        case Release():
            alive = [one.uid for one in ledger.living()]
            need(not alive, f"resources are given back while {alive} live")
        case Admit():
            need(not status.phase.is_final, "a finished job asks for resources")
            need(action.attempt == status.attempt, "resources are asked for another attempt")
            left_out = {one.name for one in ledger.living()} - {one.replica for one in action.demands}
            need(not left_out, f"resources of {left_out} are given back while they live")


def check_try(starts: list[Start], waited: float) -> None:
    """Replicas are about to be started after one was refused."""
    names = [one.replica for one in starts]
    need(len(starts) == 1, f"{names} start although one was refused before")
    need(waited >= FIRST_WAIT, f"{names} starts {waited:.1f} s after a refusal")


def check_end(ledger: Ledger, job: Job, status: Status, admission: object) -> None:
    """Long after the chaos nothing is left to be done."""
    need(
        status.phase.is_final, f"the job never ended: it is {status.phase} ({status.waiting}{status.trouble})"
    )
    alive = [one.uid for one in ledger.living()]
    stays = job.policy.clean_pods == "None" and job.policy.linger is None
    need(stays or not alive, f"{alive} outlive the job")
    need(bool(alive) or admission is None, "resources are never given back")
    need(job.policy.ttl is None or status.expired, "the job is never hidden")


def _check_conditions(status: Status) -> None:
    holding = [one.type for one in status.conditions if one.status]
    need(len({one.type for one in status.conditions}) == len(status.conditions), "a condition stands twice")
    running = ConditionType.RUNNING in holding
    won, lost = ConditionType.SUCCEEDED in holding, ConditionType.FAILED in holding
    need(not (running and ConditionType.RESTARTING in holding), "running and restarting")
    need(not (won and lost), "succeeded and failed")
    need((status.completed is not None) == (won or lost), "completed and not final, or the reverse")
    need(not (running and (won or lost)), "final and running")


def scale(job: Job) -> dict[str, int]:
    return {one.name: one.replicas for one in job.roles}


def _is_called_back(ledger: Ledger, job: Job, before: Status, after: Status) -> bool:
    """Whether a job that failed goes on, which only its user may wish; its next attempt costs nothing."""
    if after.attempt == before.attempt:
        return False
    need(before.phase is Phase.FAILED, "a job goes on that has not failed")
    need(job.policy.resumes > before.resumes, "a job goes on although nobody wished it to")
    need(after.attempt == before.attempt + 1, "attempts go up one by one")
    need((after.crashes, after.evictions) == (before.crashes, before.evictions), "a loss is counted late")
    ledger.resumes += after.attempt - after.crashes - after.evictions - ledger.resumes
    return True


def _check_final(before: Status, after: Status) -> None:
    for name in Status.__struct_fields__:
        if name not in MUTABLE_AFTER_END:
            need(getattr(before, name) == getattr(after, name), f"{name} changed after the end")


def _check_budgets(job: Job, status: Status) -> None:
    if status.completed is not None or status.holds(ConditionType.SUSPENDED):
        return
    limit = job.policy.backoff_limit
    crashes = status.crashes - status.progress.crashes
    evictions = status.evictions - status.progress.evictions
    need(limit is None or crashes <= limit, f"{crashes} crashes, {limit} are forgiven")
    need(evictions <= job.policy.eviction_limit, f"{evictions} evictions are too many")


def _check_progress(job: Job, before: Status, after: Status) -> None:
    """The budget is refilled by getting further, and by nothing else."""
    was, now = before.progress, after.progress
    need(was.step <= now.step and was.saved <= now.saved, "progress is never taken back")
    need(now.lasted or not was.lasted, "that an attempt ran for long is forgotten")
    if replace(now, lasted=was.lasted) != was:
        need(job.unit is RestartScope.GANG, "a replica's crashes are forgiven by its policy alone")
        need((now.step, now.saved) != (was.step, was.saved), "a budget is refilled without progress")
        need(after.crashes + after.evictions > before.crashes + before.evictions, "nothing was lost")


def _check_gang(ledger: Ledger, status: Status) -> None:
    losses = status.crashes + status.evictions + ledger.resumes
    most = status.attempt + status.phase.is_final
    need(status.attempt <= losses <= most, f"attempt {status.attempt} after {losses} losses and resumptions")


def _check_start(ledger: Ledger, job: Job, status: Status, admission: object, start: Start) -> None:
    name = start.replica
    need(not status.phase.is_final, f"{name} starts after the end")
    need(not job.policy.suspend, f"{name} starts although the job is suspended")
    need(start.attempt == status.attempt, f"{name} starts in attempt {start.attempt}")
    need(name not in status.done, f"{name} starts although it is done")
    _check_budgets(job, status)
    for one in ledger.living():
        need(one.name != name, f"{name} starts while {one.uid} lives")
        need(one.attempt == start.attempt, f"attempt {start.attempt} starts while {one.uid} lives")
    if job.unit is RestartScope.GANG:
        began = ledger.scales.setdefault(start.attempt, scale(job))
        need(began == scale(job), f"{name} joins a gang of {began} that is wired without it")
    need(isinstance(admission, Granted), f"{name} starts without admission")
    if isinstance(admission, Granted):
        wanted = kinds.of(job).wanted(job, frozenset(status.done))
        needed = {one.name for one in wanted} - set(status.done) if job.unit is RestartScope.GANG else {name}
        need(admission.attempt == start.attempt, f"{name} starts with resources of another attempt")
        need(needed <= admission.replicas, f"{name} starts and {needed - admission.replicas} cannot")


def _check_stop(ledger: Ledger, job: Job, status: Status, stop: Stop) -> None:
    body = ledger.bodies.get(stop.uid)
    need(body is not None and body.name == stop.replica, f"{stop} is about nobody")
    if body is None or status.completed is not None or job.policy.suspend:
        return
    if body.attempt != status.attempt:
        wished = status.wished == status.attempt
        need(stop.grace == (None if wished else 0.0), f"{body.uid} of an older attempt has {stop.grace} s")
        return
    wanted = kinds.of(job).wanted(job, frozenset(status.done))
    healthy = body.alive and any(one.name == body.name for one in wanted)
    need(not healthy, f"{body.uid} is stopped for nothing")
