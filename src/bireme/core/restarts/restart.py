"""Decides what is replaced after a loss, and when: one replica, or the whole gang as the next attempt."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from bireme.core import conditions
from bireme.core.restarts import backoff
from bireme.core.restarts.losses import Losses, is_counted, is_evicted, survives
from bireme.core.restarts.retry_policy import GANG
from bireme.core.suspend import next_attempt
from bireme.model.decisions import Event, EventType
from bireme.model.job import Job, ReplicaId, Restart, RestartScope
from bireme.model.replicas import Observation, Replica, ReplicaPhase
from bireme.model.status import ConditionType, Retry, Status


class View(Struct, frozen=True):
    """The values that a restart is decided on."""

    job: Job
    status: Status
    observation: Observation
    wanted: tuple[ReplicaId, ...]
    losses: Losses
    progressed: bool = False
    """The attempt that was lost got further than those before it."""

    def current(self) -> dict[str, Replica]:
        replicas = self.observation.replicas
        return {replica.name: replica for replica in replicas if replica.attempt == self.status.attempt}


def lost_for_good(view: View) -> frozenset[str]:
    """The replicas that failed and must not be replaced while anything is left of them."""
    if whole_attempt_lost(view):
        return frozenset()
    current = view.current()
    failed = any(replica.phase is ReplicaPhase.FAILED for replica in current.values())
    if not view.losses.evictions and not failed:
        return frozenset()
    return frozenset(
        wanted.name
        for wanted in view.wanted
        if wanted.name not in view.status.done and _is_final(view, wanted, current.get(wanted.name))
    )


def whole_attempt_lost(view: View) -> bool:
    """Whether evictions left no replica of this attempt: then it restarts under any restart policy.

    A policy of Never says that a survivor's lost peer is not replaced; here there is no survivor.
    """
    return view.losses.whole


def apply(view: View, now: float) -> tuple[Status, tuple[Event, ...]]:
    """Record a restart for each new loss: of the gang, or of the replicas that failed."""
    losses, status = view.losses, view.status
    if not losses:
        return status, ()
    if view.job.unit is RestartScope.GANG or whole_attempt_lost(view):
        before = None if view.progressed else status.retries.get(GANG)
        retry = _retry(before, now, evicted=bool(losses.evictions))
        # A refusal of the last attempt is forgotten: the room that it leaves is there for this one.
        return _announce(
            view, replace(next_attempt(view.job, status), retries={GANG: retry}, refusal=None), now
        )
    current = view.current()
    # What is restarted in place is left to its kubelet, which keeps the back-off.
    unchanged = {name for name, replica in current.items() if survives(replica)}
    unchanged |= (lost_for_good(view) & current.keys()).union(status.done)
    retries = {
        name: _retry(status.retries.get(name), now, evicted=name in losses.evictions)
        for name in dict.fromkeys((*losses.crashes, *losses.evictions))
        if name not in unchanged
    }
    status = replace(status, retries={**status.retries, **retries})
    return _announce(view, status, now) if retries else (status, ())


def _is_final(view: View, wanted: ReplicaId, replica: Replica | None) -> bool:
    """Whether a replica that is wanted has failed, or was evicted, and is not replaced."""
    # Two policies answer that, and which of them depends on how the replica was lost. A crash is judged by
    # the restart policy of its role, exit code included; but in a gang a policy of Never speaks of the
    # replica alone, while the gang as a whole is restarted against its own budget, so there it is not
    # final. An eviction is not the program's fault: it is final only where a replica alone must never be
    # restarted.
    #
    # An eviction is known in one of two ways. Either the replica is gone, and then only the losses of this
    # very observation name it: its sighting is dropped with it. Or its failed pod is still there, as it may
    # be for many observations after the loss was counted; then the status must be asked, since `losses`
    # holds only what is new. To ask `losses` there would replace the replica one step after it was given
    # up. And a pod that failed while we removed it ourselves was never counted: it is not lost, and may be
    # wanted again.
    role = view.job.role(wanted.role)
    restart = role.restart if role else Restart.NEVER
    is_gang = view.job.unit is RestartScope.GANG
    evicted = wanted.name in view.losses.evictions
    if replica is not None and replica.phase is ReplicaPhase.FAILED:
        if not is_evicted(replica):
            return not (restart.retries(replica.exit_code) or (restart is Restart.NEVER and is_gang))
        evicted = is_counted(view.status, replica)
    return evicted and restart is Restart.NEVER and not is_gang


def _retry(before: Retry | None, now: float, *, evicted: bool) -> Retry:
    """An eviction is retried at once, a crash after a back-off, which a long healthy run resets."""
    failures = before.failures if before is not None else 0
    if evicted:
        return Retry(failures, now)
    healthy = before is not None and now - before.not_before >= backoff.RESET
    failures = 1 if healthy else failures + 1
    return Retry(failures, now + backoff.replacement(failures))


def _announce(view: View, status: Status, now: float) -> tuple[Status, tuple[Event, ...]]:
    lost = {*view.losses.crashes, *view.losses.evictions}
    roles = {replica.role for replica in view.wanted if replica.name in lost}
    types = ", ".join(role.type for role in view.job.roles if role.name in roles)
    message = f"job {view.job.name} is restarting because {types} replica(s) failed."
    status = conditions.add(status, view.job, ConditionType.RESTARTING, message, now)
    return status, (Event(EventType.WARNING, f"{view.job.kind}Restarting", message),)
