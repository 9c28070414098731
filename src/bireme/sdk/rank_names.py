"""What is a replica called among its peers: its rank, and its name without its job's."""

from __future__ import annotations

from collections.abc import Iterable

from bireme import errors, kinds
from bireme.kinds.contract import ReplicaContext
from bireme.model.job import Job, Naming, Role, member_name
from bireme.model.replicas import Addresses

_VARIABLES = ("RANK", "PROCESS_ID", "PADDLE_TRAINER_ID", "JOB_COMPLETION_INDEX")
"""Where the kinds say which rank a replica is."""


def rank_of(job: Job, role: Role, index: int) -> int | None:
    """The rank that the kind gives a replica; None where ranks are numbered by somebody else."""
    place = ReplicaContext(job, role, index, 0, Addresses())
    given = {one.name: one.value for one in kinds.module(job.kind).wire(place)}
    values = [given[name] for name in _VARIABLES if given.get(name, "").isdecimal()]
    return int(values[0]) if values else None


def short_name(job: Job, replica: str) -> str:
    """The name of a replica as far as its job leaves it open: `worker-1`."""
    return replica.removeprefix(f"{job.name}-")


def is_alone(job: Job) -> bool:
    """Whether the job has one replica, so that nobody needs to be told which one speaks."""
    return job.total == 1


def replica_names(job: Job) -> dict[str, str]:
    """Every declared replica by its short name."""
    named = (member_name(job, role, index) for role in job.roles for index in range(_shown(role)))
    return {short_name(job, name): name for name in named}


def replica_of_rank(job: Job, rank: int) -> str | None:
    """The replica that has a rank; None where the kind gives none, or not so many."""
    for role in job.roles:
        for index in range(_shown(role)):
            if rank_of(job, role, index) == rank:
                return member_name(job, role, index)
    return None


def _shown(role: Role) -> int:
    return 1 if role.naming is Naming.ROLE else role.replicas


def no_such_replica(id: str, given: str, by_short: Iterable[str]) -> errors.BadInput:
    """The error for a replica that a job does not have."""
    known = ", ".join(list(by_short)[:8])
    return errors.BadInput(f"{id} has no replica {given}", hint=f"its replicas are {known}")
