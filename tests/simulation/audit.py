"""Is every loss that was seen counted, and was every end deserved: the same sums, done another way."""

from __future__ import annotations

from bireme import kinds
from bireme.model.decisions import Decision
from bireme.model.job import Job, Restart, RestartScope
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase
from bireme.model.status import ConditionType, Phase, Status
from tests.simulation.rules import Ledger, need
from tests.simulation.trials import Trials

FAILED = ReplicaPhase.FAILED


class Auditor:
    """Follows every replica by its uid through what was seen, and knows nothing of the core's memory."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen: set[str] = set()
        self._restarts: dict[str, int] = {}
        self._followed: dict[str, str] = {}
        """Names by uid of those whose end is still to be counted."""
        self._fallen: dict[tuple[str, int], int | None] = {}
        """Exit codes of those who fell by themselves, by name and attempt."""
        self._done: set[tuple[str, int]] = set()
        """Name and attempt of those who were seen to have succeeded."""
        self._faults = False
        self.trials = Trials()

    def check_losses(self, before: Status, decision: Decision, seen: Observation, job: Job) -> None:
        """Each loss that this look brought is counted; only where the user does not change the scale."""
        after = decision.status
        if job.policy.suspend or before.holds(ConditionType.SUSPENDED):
            self._followed.clear()
            return
        current = {one.uid: one for one in seen.replicas if one.attempt == before.attempt}
        crashes = self._new_crashes(current)
        lost = self._newly_lost(current, after if after.attempt == before.attempt else before)
        whole = bool(lost) and not any(_holds_out(one) for one in current.values() if one.uid not in lost)
        if job.unit is RestartScope.GANG:
            expected = (0, 1) if lost else (1 if crashes else 0, 0)
        else:
            expected = (crashes, 1 if whole else len(lost))
        counted = (after.crashes - before.crashes, after.evictions - before.evictions)
        need(counted == expected, f"{counted} crashes and evictions were counted, {expected} were seen")

    def check_end(self, before: Status, decision: Decision, job: Job, now: float) -> None:
        """A job fails for a reason that can be told."""
        after = decision.status
        if before.completed is not None or after.phase is not Phase.FAILED:
            return
        policy = job.policy
        late = policy.deadline is not None and now >= (after.started or 0.0) + policy.deadline
        crashes = after.crashes - after.progress.crashes
        spent = policy.backoff_limit is not None and crashes > policy.backoff_limit
        need(
            late
            or spent
            or after.evictions - after.progress.evictions > policy.eviction_limit
            or self._faults
            or self.trials.is_hopeless
            or any(self._stays_lost(job, after, name) for name in self._names(job)),
            f"the job failed for nothing: {after.conditions[-1].message}",
        )

    def check_start(self, job: Job, name: str, attempt: int) -> None:
        """Nobody is started again who fell and must not be."""
        fell = self._fallen.get((name, attempt))
        restart = _restart(job, name)
        permanent = fell is not None and fell < 128 and restart is Restart.EXIT_CODE
        never = (name, attempt) in self._fallen and restart is Restart.NEVER
        kept = kinds.of(job).independent
        done = any(one == name and (kept or at == attempt) for one, at in self._done)
        need(not done, f"{name} starts again although it was done")
        need(not permanent, f"{name} starts again after exit code {fell}")
        need(not (never and job.unit is RestartScope.REPLICA), f"{name} starts again although it must never")

    def note(self, seen: Observation) -> None:
        """What was seen by a look whose decision was recorded."""
        self._faults = self._faults or any(one.final for one in seen.faults)
        for one in seen.replicas:
            if one.phase is ReplicaPhase.SUCCEEDED and not one.stopping:
                self._done.add((one.name, one.attempt))
            if one.phase is FAILED and one.loss is Loss.CRASH and not one.stopping:
                self._fallen[one.name, one.attempt] = one.exit_code

    def _newly_lost(self, current: dict[str, Replica], status: Status) -> set[str]:
        lost = set()
        for uid, name in list(self._followed.items()):
            one = current.get(uid)
            body = self._ledger.bodies[uid]
            if body.attempt != status.attempt or name in status.done:
                del self._followed[uid]
            elif one is None or self._is_taken(one):
                lost.add(uid)
                del self._followed[uid]
            elif one.phase is FAILED:
                del self._followed[uid]
        for uid, one in current.items():
            if uid in self._seen or one.name in status.done:
                continue
            self._seen.add(uid)
            if self._is_taken(one):
                lost.add(uid)
            elif one.phase is not FAILED:
                self._followed[uid] = one.name
        return lost

    def _new_crashes(self, current: dict[str, Replica]) -> int:
        new = 0
        for uid, one in current.items():
            fell = one.phase is FAILED and one.loss is Loss.CRASH and not one.stopping
            crashes = one.restarts + fell
            known = self._restarts.get(uid, 0)
            settled = one.stopping and uid in self._seen and uid not in self._followed
            if crashes > known and not settled:
                new += crashes - known
            self._restarts[uid] = max(known, crashes)
        return new

    def _is_taken(self, one: Replica) -> bool:
        return one.stopping or (one.phase is FAILED and one.loss is Loss.EVICTION)

    def _stays_lost(self, job: Job, status: Status, name: str) -> bool:
        restart = _restart(job, name)
        fell = self._fallen.get((name, status.attempt), 128)
        if restart is Restart.EXIT_CODE:
            return fell is not None and fell < 128
        taken = any(self._ledger.bodies[uid].name == name for uid in self._ledger.taken)
        fallen = (name, status.attempt) in self._fallen
        return restart is Restart.NEVER and job.unit is RestartScope.REPLICA and (taken or fallen)

    def _names(self, job: Job) -> set[str]:
        return {one.name for one in self._ledger.bodies.values()}


def check_decision(job: Job, decision: Decision, seen: Observation) -> None:
    """What is said of a job is what is seen of it."""
    status = decision.status
    if not seen.complete or status.completed is not None or job.policy.suspend:
        return
    alive = any(one.is_alive for one in seen.replicas)
    need(not (status.waiting and alive), "a job is queued that works")
    current = {one.name: one for one in seen.replicas if one.attempt == status.attempt}
    wanted = kinds.of(job).wanted(job, frozenset(status.done))
    missing = [one.name for one in wanted if one.name not in status.done]
    states = [current.get(name) for name in missing]
    well = [one is not None and one.phase is ReplicaPhase.RUNNING and not one.stopping for one in states]
    # A master that is done has ended its job; a worker that is done need not be in the way of running.
    if missing and all(well):
        need(status.holds(ConditionType.RUNNING), f"everybody runs and the job is {status.phase}")
    fell = [one for one in states if one is not None and one.phase is FAILED and not one.stopping]
    if any(_restart(job, one.name) in (Restart.ALWAYS, Restart.ON_FAILURE) for one in fell):
        need(not status.holds(ConditionType.RUNNING), "a job runs that is about to replace somebody")


def _holds_out(one: Replica) -> bool:
    if one.phase is FAILED:
        return one.loss is Loss.CRASH
    return one.is_alive and not one.stopping


def _restart(job: Job, name: str) -> Restart:
    role = next(one for one in job.roles if _is_of(job, one.name, name))
    return role.restart


def _is_of(job: Job, role: str, name: str) -> bool:
    if job.kind == "Job":
        return True
    return name.removeprefix(f"{job.name}-").split("-")[0] == role
