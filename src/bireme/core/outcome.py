"""What has become of the replicas: the counts that users read and the kind decides by."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bireme import kinds
from bireme.kinds.contract import Tally
from bireme.model.decisions import Event, EventType
from bireme.model.job import Job, Role, replica_ids, replica_name
from bireme.model.replicas import Observation, Replica, ReplicaPhase, printable
from bireme.model.status import Counts, Status

NOT_SAVED = "CheckpointsNotSaved"


def note_done(job: Job, status: Status, observation: Observation) -> Status:
    """Remember who succeeded in this attempt, so that nobody who is done is run again.

    A program that is told to stop may end without an error: that is no success. The success of a replica
    that works alone counts although its attempt was given up before it could be stopped.
    """
    alone = kinds.of(job).independent
    finished = {
        one.name
        for one in observation.replicas
        if one.phase is ReplicaPhase.SUCCEEDED
        and not one.stopping
        and (alone or one.attempt == status.attempt)
    }
    known = finished.union(status.done)
    if not known:
        return status
    declared = [member.name for member in replica_ids(job)]
    return replace(status, done=tuple(name for name in declared if name in known))


def tally(job: Job, status: Status, observation: Observation, lost: frozenset[str]) -> Tally:
    """Count the replicas of this attempt; `lost` are those that failed and will not be replaced."""
    done = frozenset(status.done)
    current = [one for one in observation.replicas if one.attempt == status.attempt]
    active = {one.name for one in current if _is_active(one)}
    counts = {
        role.name: Counts(
            active=len(names & active - done - lost),
            succeeded=len(names & done),
            failed=len(names & lost - done),
        )
        for role, names in _names(job)
    }
    pending = frozenset(one.name for one in current if one.is_alive and not _is_active(one))
    return Tally(counts, done, pending - done - lost)


def by_type(job: Job, tally: Tally) -> dict[str, Counts]:
    return {role.type: tally.of(role.name) for role in job.roles}


def lost(job: Job, status: Status, observation: Observation) -> tuple[Event, ...]:
    """Warns of work that is on no disk: a success that says nothing of it would be a lie."""
    said = [one.told.lost for one in observation.replicas if one.attempt == status.attempt and one.told.lost]
    return tuple(Event(EventType.WARNING, NOT_SAVED, f"{job.name} {printable(one)}") for one in said[:1])


def _is_active(replica: Replica) -> bool:
    return replica.phase is ReplicaPhase.RUNNING and not replica.stopping


def _names(job: Job) -> Iterator[tuple[Role, set[str]]]:
    """The names of each role's replicas."""
    for role in job.roles:
        yield role, {replica_name(job, role, index) for index in range(role.replicas)}
