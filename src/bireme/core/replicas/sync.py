"""Brings the replicas that exist to those that should exist: removes the surplus, starts the missing."""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct
from msgspec.structs import replace

from bireme import kinds
from bireme.core import cleanup
from bireme.core.replicas import slow_start, wiring
from bireme.core.replicas.slow_start import Paused, Probing
from bireme.core.restarts import backoff, losses
from bireme.core.restarts.retry_policy import GANG
from bireme.model.decisions import Admit, Decision, Event, EventType
from bireme.model.job import Job, ReplicaId, RestartScope
from bireme.model.replicas import Granted, Observation, ReplicaPhase, Waiting
from bireme.model.status import Retry, Status

ASK_AGAIN = 1.0
"""Seconds until a job that waits for resources asks again without being woken."""
_MOST_NAMES = 8
"""Replicas that an event names; of more it says how many there are."""


def sync_replicas(
    job: Job, status: Status, observation: Observation, now: float, lost: frozenset[str] = frozenset()
) -> Decision:
    """Remove replicas that do not belong to this attempt, then start those that are missing from it.

    The replicas that are `lost` failed for good: what is left of them stays.
    """
    status, again = _note_faults(status, observation, now)
    wanted = _wanted(job, status)
    names = frozenset(replica.name for replica in wanted)
    # Replicas of older attempts, of a larger scale, or failed ones that are to be replaced.
    stale = [
        replica
        for replica in observation.replicas
        if replica.attempt != status.attempt
        or replica.name not in names
        or (replica.phase is ReplicaPhase.FAILED and replica.name not in lost)
        or replica.abandoned
    ]
    # Recorded before any of them is stopped, so that the end that we cause is not counted as a loss.
    status = losses.close(status, frozenset(replica.name for replica in stale))
    leaving = [replica for replica in stale if not replica.stopping or replica.abandoned]
    # Survivors of a lost gang are killed at once: what they still do is lost anyway. Those of an attempt that
    # was given up by a user's wish may save first.
    is_wished = status.wished == status.attempt
    removals = tuple(
        cleanup.removal(
            replica,
            grace=None if replica.attempt == status.attempt or is_wished else 0.0,
            for_good=replica.name not in names,
        )
        for replica in leaving
    )
    if any(replica.abandoned and replica.attempt != status.attempt for replica in leaving):
        # A replica that cannot be ended must not find this attempt: the ports move, see `Addresses.shift`.
        status = replace(status, fence=status.attempt)
    removed = [replica.name for replica in leaving]
    events = (_told("SuccessfulDeletePod", "Deleted", removed),) if removed else ()
    if any(replica.attempt != status.attempt for replica in observation.replicas):
        # No attempt starts until the old one is seen gone: two of them would write the same checkpoints.
        return Decision(status, removals, events)
    decision = _start_missing(_Attempt(job, status, wanted, observation, again), now)
    return replace(decision, actions=(*removals, *decision.actions), events=(*events, *decision.events))


def is_complete(
    job: Job, status: Status, observation: Observation, lost: frozenset[str] = frozenset()
) -> bool:
    """Whether every replica of this attempt that can exist does, so that a restart is over."""
    there = {
        replica.name
        for replica in observation.replicas
        if replica.attempt == status.attempt
        and (replica.name in lost or replica.phase is not ReplicaPhase.FAILED)
        and not replica.stopping
    }
    return all(replica.name in there or replica.name in status.done for replica in _wanted(job, status))


def _wanted(job: Job, status: Status) -> tuple[ReplicaId, ...]:
    return kinds.of(job).wanted(job, frozenset(status.done))


class _Attempt(Struct, frozen=True):
    """The values that decide on starts when no replica of another attempt is left."""

    job: Job
    status: Status
    wanted: tuple[ReplicaId, ...]
    observation: Observation
    again: frozenset[str]
    """Replicas that are retried now although the status holds the wait for the retry after this one."""

    @property
    def missing(self) -> list[ReplicaId]:
        there = {replica.name for replica in self.observation.replicas} | set(self.status.done)
        return [replica for replica in self.wanted if replica.name not in there]

    @property
    def claimants(self) -> tuple[ReplicaId, ...]:
        """Replicas that need resources: the wanted ones, and those that leave for as long as they live."""
        names = {replica.name for replica in self.wanted}
        leaving = [
            ReplicaId(replica.name, replica.role, replica.index)
            for replica in self.observation.replicas
            if replica.is_alive and replica.name not in names and self.job.role(replica.role) is not None
        ]
        return (*self.wanted, *leaving)

    @property
    def ready(self) -> frozenset[str]:
        return frozenset(
            replica.name for replica in self.observation.replicas if replica.ready and not replica.stopping
        )

    @property
    def granted(self) -> Granted | None:
        """The admission that lets the missing start; a gang starts none while it lacks room for any."""
        admission = self.observation.admission
        if not isinstance(admission, Granted) or admission.attempt != self.status.attempt:
            return None
        missing = self.missing
        needy = self.wanted if missing and self.job.unit is RestartScope.GANG else missing
        has_room = admission.replicas.union(self.status.done)
        return admission if all(replica.name in has_room for replica in needy) else None

    @property
    def admit(self) -> Admit:
        done = frozenset(self.status.done)
        demands = (wiring.demand(self.job, replica, done) for replica in self.claimants)
        return Admit(self.status.attempt, tuple(demand for demand in demands if demand is not None))

    def may_start(self, replica: ReplicaId, granted: Granted, now: float) -> bool:
        """Whether its back-off is over, the roles before it are ready and its rendezvous can be found."""
        kind, status = kinds.of(self.job), self.status
        if any(at > now for at in _timers(status, {GANG, replica.name} - self.again)):
            return False
        earlier = kind.start_after(self.job, wiring.role_of(self.job, replica))
        if earlier:
            through = self.ready.union(status.done)
            if not all(other.name in through for other in self.wanted if other.role in earlier):
                return False
        meeting = kind.rendezvous_replica(self.job)
        if not meeting or replica.name == meeting or meeting in status.done:
            return True
        if granted.addresses.book or granted.together:
            return True
        # A name that is looked up before it exists stays unknown to the cluster's DNS for seconds.
        return any(other.name == meeting and other.address for other in self.observation.replicas)


def _start_missing(attempt: _Attempt, now: float) -> Decision:
    job, observation, missing = attempt.job, attempt.observation, attempt.missing
    status, pace = slow_start.note(attempt.status, observation.faults, missing, now)
    attempt = replace(attempt, status=status)
    granted = attempt.granted
    if missing and granted is None:
        # A job of which replicas run already is not queued: it only lacks some of them.
        is_running = any(replica.is_alive for replica in observation.replicas)
        admission = observation.admission
        queued = admission.reason if isinstance(admission, Waiting) and not is_running else ""
        status = replace(status, waiting=queued)
        if isinstance(pace, Paused):
            return Decision(status, wake_at=pace.until)
        status = slow_start.try_again(status, pace, missing, now)
        return Decision(status, (attempt.admit,), wake_at=now + ASK_AGAIN)
    settled = not missing and not observation.faults
    status = replace(status, waiting="", trouble="" if settled else status.trouble)
    if granted is None:
        return Decision(status)
    due = [replica for replica in missing if attempt.may_start(replica, granted, now)]
    starts = wiring.start_all(job, slow_start.chosen(pace, due), status.attempt, granted.addresses)
    wake_at = slow_start.next_turn(pace, due, now)
    if wake_at is None and missing:
        timers = _timers(status, {GANG, *(replica.name for replica in missing)})
        wake_at = min((at for at in timers if at > now), default=None)
    # One event for each role, however many replicas it has. None for a replica that is retried alone after a
    # refusal: most likely it is refused again.
    created = [[start.replica for start in starts if start.role == role.name] for role in job.roles]
    events = tuple(_told("SuccessfulCreatePod", "Created", names) for names in created if names)
    # Resources of replicas that are gone and not wanted are given back.
    surplus = granted.replicas - {replica.name for replica in attempt.claimants}
    return Decision(
        # The next retry is recorded with the start, before anything can refuse it.
        slow_start.try_again(status, pace, due, now),
        (*starts, attempt.admit) if surplus else starts,
        () if isinstance(pace, Probing) else events,
        files=kinds.of(job).files(job, attempt.ready, granted.addresses),
        wake_at=wake_at,
    )


def _timers(status: Status, keys: Set[str]) -> list[float]:
    return [status.retries[key].not_before for key in keys if key in status.retries]


def _note_faults(status: Status, observation: Observation, now: float) -> tuple[Status, frozenset[str]]:
    """The status with a back-off for each start that failed for a reason of its own, and what is retried now.

    Where the reason is not the replica's own, the whole job waits: see `slow_start`.
    """
    # A backend may show a fault once, or in every observation until the next try: how often it is seen must
    # not matter. So a fault that is seen while its replica's back-off runs is the one that is known already.
    # When the back-off is over, the same fault may still be shown, and cannot be told apart from a new one.
    # Therefore the try that is due now is made together with recording the back-off of the one after it: were
    # that recorded only after the next fault, an old fault that is still shown would be counted as the result
    # of a try that was never made. `again` names the replicas whose new back-off must not hold up this try.
    own = [fault for fault in observation.faults if fault.alone]
    if not own:
        return status, frozenset()
    retries = dict(status.retries)
    again: set[str] = set()
    for name in {fault.replica: None for fault in own}:
        known = status.retries.get(name)
        if known is not None and known.not_before > now:
            continue
        if known is not None:
            again.add(name)
        failures = known.failures + 1 if known is not None else 1
        retries[name] = Retry(failures, now + backoff.longest(failures))
    return replace(status, retries=retries, trouble=own[-1].text), frozenset(again)


def _told(reason: str, verb: str, names: list[str]) -> Event:
    more = len(names) - _MOST_NAMES
    listed = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return Event(EventType.NORMAL, reason, f"{verb} pod{'s' if len(names) > 1 else ''}: {listed}")
