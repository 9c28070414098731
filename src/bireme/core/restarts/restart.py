"""Who is replaced after a loss, and when: one replica, or the whole gang as the next attempt."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from bireme.core import conditions
from bireme.core.restarts import backoff
from bireme.core.restarts.losses import Losses, is_counted, is_evicted
from bireme.core.restarts.retry_policy import GANG
from bireme.core.suspend import next_attempt
from bireme.model.decisions import Event, EventType
from bireme.model.job import Job, ReplicaId, Restart, RestartScope
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import ConditionType, Retry, Status


class View(Struct, frozen=True):
    """What a restart is decided on."""

    job: Job
    status: Status
    observation: Observation
    wanted: tuple[ReplicaId, ...]
    losses: Losses
    progressed: bool = False
    """The attempt that was lost got further than those before it."""

    def current(self) -> dict[str, Replica]:
        return {one.name: one for one in self.observation.replicas if one.attempt == self.status.attempt}


def lost_for_good(view: View) -> frozenset[str]:
    """The replicas that failed and must not be replaced while anything is left of them."""
    if whole_attempt_lost(view):
        return frozenset()
    current = view.current()
    if not view.losses.evictions and not any(one.phase is ReplicaPhase.FAILED for one in current.values()):
        return frozenset()
    return frozenset(
        member.name
        for member in view.wanted
        if member.name not in view.status.done and _is_final(view, member, current.get(member.name))
    )


def whole_attempt_lost(view: View) -> bool:
    """Whether evictions left nobody of this attempt: then it starts anew under any restart policy.

    A policy of Never says that a survivor's lost peer is not replaced; here there is no survivor.
    """
    return view.losses.whole


def apply(view: View, now: float) -> tuple[Status, tuple[Event, ...]]:
    """Charge each new loss with a restart: of the gang, or of the replicas that fell."""
    if not view.losses:
        return view.status, ()
    if view.job.unit is RestartScope.GANG or whole_attempt_lost(view):
        return _again_as_gang(view, now)
    return _again_one_by_one(view, now)


def _is_final(view: View, member: ReplicaId, replica: Replica | None) -> bool:
    role = view.job.role(member.role)
    restart = role.restart if role else Restart.NEVER
    evicted = member.name in view.losses.evictions
    if replica is not None and replica.phase is ReplicaPhase.FAILED:
        if not is_evicted(replica):
            return not (_retried_as_gang(view, restart) or restart.retries(replica.exit_code))
        # One whom we removed ourselves was not lost, and may be wanted again.
        evicted = is_counted(view.status, replica)
    return evicted and restart is Restart.NEVER and view.job.unit is RestartScope.REPLICA


def _retried_as_gang(view: View, restart: Restart) -> bool:
    """Whether a policy of Never speaks of the replica alone, while its gang starts anew."""
    return restart is Restart.NEVER and view.job.unit is RestartScope.GANG


def _survives(replica: Replica) -> bool:
    return replica.is_alive and not replica.stopping and not replica.abandoned


def _again_as_gang(view: View, now: float) -> tuple[Status, tuple[Event, ...]]:
    before = None if view.progressed else view.status.retries.get(GANG)
    retry = _retry(before, now, evicted=bool(view.losses.evictions))
    # The room that the last attempt leaves is there for this one.
    status = replace(next_attempt(view.job, view.status), retries={GANG: retry}, refusal=None)
    return _announce(view, status, now)


def _again_one_by_one(view: View, now: float) -> tuple[Status, tuple[Event, ...]]:
    current = view.current()
    # What is restarted in place is left to its kubelet, which keeps the back-off.
    unchanged = {name for name, one in current.items() if _survives(one)}
    unchanged |= (lost_for_good(view) & current.keys()).union(view.status.done)
    fallen = dict.fromkeys((*view.losses.crashes, *view.losses.evictions))
    retries = {
        name: _retry(view.status.retries.get(name), now, evicted=name in view.losses.evictions)
        for name in fallen
        if name not in unchanged
    }
    status = replace(view.status, retries={**view.status.retries, **retries})
    return _announce(view, status, now) if retries else (status, ())


def _retry(before: Retry | None, now: float, *, evicted: bool) -> Retry:
    """An eviction is tried again at once, a crash after a while; a long healthy run sets that back."""
    failures = before.failures if before is not None else 0
    if evicted:
        return Retry(failures, now)
    healthy = before is not None and now - before.not_before >= backoff.RESET
    failures = 1 if healthy else failures + 1
    return Retry(failures, now + backoff.replacement(failures))


def _announce(view: View, status: Status, now: float) -> tuple[Status, tuple[Event, ...]]:
    fallen = {*view.losses.crashes, *view.losses.evictions}
    roles = {member.role for member in view.wanted if member.name in fallen}
    types = ", ".join(role.type for role in view.job.roles if role.name in roles)
    message = f"job {view.job.name} is restarting because {types} replica(s) failed."
    status = conditions.add(status, view.job, ConditionType.RESTARTING, message, now)
    return status, (Event(EventType.WARNING, f"{view.job.kind}Restarting", message),)
