"""Counts what has become of the replicas, for users to read and for the kind to decide by."""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.kinds.contract import Tally
from bireme.model.decisions import Event, EventType
from bireme.model.job import Job, replica_ids, replica_name
from bireme.model.replicas import Observation, Replica, ReplicaPhase, printable
from bireme.model.status import Counts, Status

NOT_SAVED = "CheckpointsNotSaved"


def note_done(job: Job, status: Status, observation: Observation) -> Status:
    """Remember which replicas succeeded in this attempt, so that none of them is run again.

    A program that is told to stop may end without an error: that is no success. The success of a replica
    that works alone counts although its attempt was given up before it could be stopped.
    """
    works_alone = kinds.of(job).independent
    finished = {
        replica.name
        for replica in observation.replicas
        if replica.phase is ReplicaPhase.SUCCEEDED
        and not replica.stopping
        and (works_alone or replica.attempt == status.attempt)
    }
    known = finished.union(status.done)
    if not known:
        return status
    declared = [replica.name for replica in replica_ids(job)]
    return replace(status, done=tuple(name for name in declared if name in known))


def tally(job: Job, status: Status, observation: Observation, lost: frozenset[str]) -> Tally:
    """Count the replicas of this attempt; `lost` are those that failed and will not be replaced."""
    done = frozenset(status.done)
    current = [replica for replica in observation.replicas if replica.attempt == status.attempt]
    active = {replica.name for replica in current if _is_active(replica)}
    counts: dict[str, Counts] = {}
    for role in job.roles:
        names = {replica_name(job, role, index) for index in range(role.replicas)}
        counts[role.name] = Counts(
            active=len(names & active - done - lost),
            succeeded=len(names & done),
            failed=len(names & lost - done),
        )
    pending = frozenset(replica.name for replica in current if replica.is_alive and not _is_active(replica))
    return Tally(counts, done, pending - done - lost)


def by_type(job: Job, tally: Tally) -> dict[str, Counts]:
    return {role.type: tally.of(role.name) for role in job.roles}


def lost(job: Job, status: Status, observation: Observation) -> tuple[Event, ...]:
    """Warn of work that was not saved: a success without that warning would be a lie."""
    for replica in observation.replicas:
        if replica.attempt == status.attempt and replica.told.lost:
            return (Event(EventType.WARNING, NOT_SAVED, f"{job.name} {printable(replica.told.lost)}"),)
    return ()


def _is_active(replica: Replica) -> bool:
    return replica.phase is ReplicaPhase.RUNNING and not replica.stopping
