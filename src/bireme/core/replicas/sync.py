"""Who is missing and who is too many: the step from the replicas there are to those there should be."""

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
from bireme.model.decisions import Admit, Decision, Event, EventType, Start
from bireme.model.job import Job, ReplicaId, RestartScope
from bireme.model.replicas import Granted, Observation, Replica, ReplicaPhase, Waiting
from bireme.model.status import Retry, Status

ASK_AGAIN = 1.0
"""Seconds until a job that waits for resources asks again without being woken."""


def sync_replicas(
    job: Job, status: Status, observation: Observation, now: float, lost: frozenset[str] = frozenset()
) -> Decision:
    """Remove who does not belong to this attempt, then start who is missing from it.

    Those who are `lost` failed for good: what is left of them stays.
    """
    status, again = _note_faults(status, observation, now)
    members = _wanted(job, status)
    stale = _stale(status, members, observation, lost)
    status = losses.close(status, frozenset(one.name for one in stale))
    leaving = [one for one in stale if not one.stopping or one.abandoned]
    names = frozenset(one.name for one in members)
    removals = tuple(
        cleanup.removal(one, grace=_grace(status, one), for_good=one.name not in names) for one in leaving
    )
    status = _fence(status, leaving)
    if any(one.attempt != status.attempt for one in observation.replicas):
        # No attempt starts until the old one is seen gone.
        return Decision(status, removals, _removed(leaving))
    decision = _bring_in(_Muster(job, status, members, observation, again), now)
    return replace(
        decision,
        actions=(*removals, *decision.actions),
        events=(*_removed(leaving), *decision.events),
    )


def is_complete(
    job: Job, status: Status, observation: Observation, lost: frozenset[str] = frozenset()
) -> bool:
    """Whether every replica of this attempt is there that can be, so that a restart is over."""
    there = {
        one.name
        for one in observation.replicas
        if one.attempt == status.attempt
        and (one.name in lost or one.phase is not ReplicaPhase.FAILED)
        and not one.stopping
    }
    return all(member.name in there or member.name in status.done for member in _wanted(job, status))


def _wanted(job: Job, status: Status) -> tuple[ReplicaId, ...]:
    return kinds.of(job).wanted(job, frozenset(status.done))


def _stale(
    status: Status, members: tuple[ReplicaId, ...], observation: Observation, lost: frozenset[str]
) -> list[Replica]:
    """Replicas of older attempts, of a larger scale, or failed ones that are to be replaced."""
    names = {member.name for member in members}
    return [
        one
        for one in observation.replicas
        if one.attempt != status.attempt
        or one.name not in names
        or (one.phase is ReplicaPhase.FAILED and one.name not in lost)
        or one.abandoned
    ]


def _fence(status: Status, leaving: list[Replica]) -> Status:
    """Remember that this attempt must not be found by somebody of an earlier one whom nobody can end."""
    out_of_reach = any(one.abandoned and one.attempt != status.attempt for one in leaving)
    return replace(status, fence=status.attempt) if out_of_reach else status


def _grace(status: Status, replica: Replica) -> float | None:
    """Survivors of a lost gang are killed at once: what they still do is lost anyway."""
    is_lost = replica.attempt != status.attempt and status.wished != status.attempt
    return 0.0 if is_lost else None


class _Muster(Struct, frozen=True):
    """What is decided on when nobody of another attempt is left."""

    job: Job
    status: Status
    members: tuple[ReplicaId, ...]
    observation: Observation
    again: frozenset[str]

    @property
    def missing(self) -> list[ReplicaId]:
        there = {one.name for one in self.observation.replicas} | set(self.status.done)
        return [one for one in self.members if one.name not in there]

    @property
    def claimants(self) -> tuple[ReplicaId, ...]:
        """Whoever needs resources: those who are wanted, and those who leave for as long as they live."""
        names = {one.name for one in self.members}
        leaving = [one for one in self.observation.replicas if one.is_alive and one.name not in names]
        known = [one for one in leaving if self.job.role(one.role) is not None]
        return (*self.members, *(ReplicaId(one.name, one.role, one.index) for one in known))

    @property
    def ready(self) -> frozenset[str]:
        return frozenset(one.name for one in self.observation.replicas if one.ready and not one.stopping)


def _bring_in(muster: _Muster, now: float) -> Decision:
    missing = muster.missing
    status, pace = slow_start.note(muster.status, muster.observation.faults, missing, now)
    muster = replace(muster, status=status)
    job = muster.job
    granted = _granted(muster, missing)
    if missing and granted is None:
        status = replace(status, waiting=_queued(muster.observation))
        if isinstance(pace, Paused):
            return Decision(status, wake_at=pace.until)
        status = slow_start.try_again(status, pace, missing, now)
        return Decision(status, (_admit(muster),), wake_at=now + ASK_AGAIN)
    settled = not missing and not muster.observation.faults
    status = replace(status, waiting="", trouble="" if settled else status.trouble)
    if granted is None:
        return Decision(status)
    due = [one for one in missing if _may_start(muster, one, now) and _can_meet(muster, one, granted)]
    starts = wiring.start_all(job, slow_start.chosen(pace, due), status.attempt, granted.addresses)
    status = slow_start.try_again(status, pace, due, now)
    # Resources of those who are gone and not wanted are given back.
    surplus = granted.replicas - {one.name for one in muster.claimants}
    return Decision(
        status,
        (*starts, _admit(muster)) if surplus else starts,
        # One that is tried after a refusal is most likely refused again.
        () if isinstance(pace, Probing) else _created(job, starts),
        files=kinds.of(job).files(job, muster.ready, granted.addresses),
        wake_at=_next_look(muster, slow_start.next_turn(pace, due, now), now),
    )


def _next_look(muster: _Muster, turn: float | None, now: float) -> float | None:
    """When another one of the missing may start, if nothing else happens."""
    if turn is not None:
        return turn
    waited_for = {GANG, *(one.name for one in muster.missing)} if muster.missing else set[str]()
    return min((at for at in _timers(muster.status, waited_for) if at > now), default=None)


def _queued(observation: Observation) -> str:
    """Why the job waits; one that works already only lacks somebody."""
    if any(one.is_alive for one in observation.replicas) or not isinstance(observation.admission, Waiting):
        return ""
    return observation.admission.reason


def _granted(muster: _Muster, missing: list[ReplicaId]) -> Granted | None:
    """The admission that lets the missing start; a gang starts nobody while it lacks room for anybody."""
    admission = muster.observation.admission
    if not isinstance(admission, Granted) or admission.attempt != muster.status.attempt:
        return None
    needy = muster.members if missing and muster.job.unit is RestartScope.GANG else missing
    done = muster.status.done
    return admission if all(one.name in admission.replicas or one.name in done for one in needy) else None


def _admit(muster: _Muster) -> Admit:
    done = frozenset(muster.status.done)
    demands = (wiring.demand(muster.job, one, done) for one in muster.claimants)
    return Admit(muster.status.attempt, tuple(one for one in demands if one is not None))


def _may_start(muster: _Muster, member: ReplicaId, now: float) -> bool:
    job, status = muster.job, muster.status
    if any(at > now for at in _timers(status, {GANG, member.name} - muster.again)):
        return False
    earlier = kinds.of(job).start_after(job, wiring.role_of(job, member))
    if not earlier:
        return True
    through = muster.ready.union(status.done)
    return all(one.name in through for one in muster.members if one.role in earlier)


def _can_meet(muster: _Muster, member: ReplicaId, granted: Granted) -> bool:
    """Whether the replica that this one looks up when it begins can be found, or need not be waited for."""
    meeting = kinds.of(muster.job).rendezvous_replica(muster.job)
    if not meeting or member.name == meeting or granted.addresses.book or meeting in muster.status.done:
        return True
    if granted.together:
        return True
    return any(one.name == meeting and one.address for one in muster.observation.replicas)


def _timers(status: Status, keys: Set[str]) -> list[float]:
    return [status.retries[key].not_before for key in keys if key in status.retries]


def _note_faults(status: Status, observation: Observation, now: float) -> tuple[Status, frozenset[str]]:
    """A start that failed for a reason of its own is tried again after a while; the reason is said meanwhile.

    A backend may show a fault once or until the next try. So one that is seen again while its time has not
    come is no news; and when the time has come, the try is due together with the wait for the one after it.
    Where the reason is not the replica's own, the whole job waits: see `slowstart`.
    """
    own = [one for one in observation.faults if one.alone]
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
    status = replace(status, retries=retries, trouble=own[-1].text)
    return status, frozenset(again)


def _created(job: Job, starts: tuple[Start, ...]) -> tuple[Event, ...]:
    """One event for each role, however many replicas it has."""
    by_role = [[one.replica for one in starts if one.role == role.name] for role in job.roles]
    return tuple(_told("SuccessfulCreatePod", "Created", names) for names in by_role if names)


def _removed(replicas: list[Replica]) -> tuple[Event, ...]:
    names = [one.name for one in replicas]
    return (_told("SuccessfulDeletePod", "Deleted", names),) if names else ()


def _told(reason: str, verb: str, names: list[str]) -> Event:
    return Event(EventType.NORMAL, reason, f"{verb} pod{'s' if len(names) > 1 else ''}: {_list(names)}")


def _list(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:8])} and {len(names) - 8} more"
