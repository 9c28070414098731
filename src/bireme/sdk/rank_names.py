"""Names a replica for people: `rank 1` of a script, `worker-0` of a job with roles."""

from __future__ import annotations

from bireme import errors, kinds
from bireme.model.job import Job, Naming, Role, replica_name

_MOST_NAMED = 8


def counts_ranks(job: Job) -> bool:
    """Whether the replicas of a job are the ranks of a script, whose roles its user never wrote."""
    return kinds.of(job).counts_ranks(job)


def rank_of(job: Job, role: Role, index: int) -> int | None:
    """The rank that the kind gives a replica; None where ranks are numbered by something else."""
    return kinds.of(job).rank(job, role, index)


def short_name(job: Job, replica: str) -> str:
    """The name of a replica as far as its job leaves it open: `worker-1`."""
    return replica.removeprefix(f"{job.name}-")


def label(job: Job, replica: str) -> str:
    """The name of a replica in a line or a sentence: `rank 1` of a script, else `worker-0`."""
    short = short_name(job, replica)
    name, _, index = short.rpartition("-")
    role = job.role(name)
    if role is None or not index.isdecimal() or not counts_ranks(job):
        return short
    return f"rank {rank_of(job, role, int(index))}"


def title(job: Job, replica: str, rank: int | None, host: str = "") -> str:
    """The same with the rank of any job, and where it runs: `rank 1 (worker-0 on box)`."""
    name = label(job, replica)
    place = f"{name} on {host}" if host else name
    return place if rank is None or counts_ranks(job) else f"rank {rank} ({place})"


def is_alone(job: Job) -> bool:
    """Whether the job has one replica, so that no line has to say which one printed it."""
    return job.total == 1


def replica_names(job: Job) -> dict[str, str]:
    """Every declared replica by its short name."""
    named = (replica_name(job, role, index) for role in job.roles for index in range(_shown(role)))
    return {short_name(job, name): name for name in named}


def replica_of_rank(job: Job, rank: int) -> str | None:
    """The replica that has a rank; None where the kind gives none, or not so many."""
    for role in job.roles:
        for index in range(_shown(role)):
            if rank_of(job, role, index) == rank:
                return replica_name(job, role, index)
    return None


def replica_named(job: Job, given: str | int) -> str | None:
    """The full name of a declared replica that is given by its rank or its name, short or full."""
    if isinstance(given, int):
        return replica_of_rank(job, given)
    by_short = replica_names(job)
    full = by_short.get(given, given)
    return full if full in by_short.values() else None


def no_such_replica(id: str, job: Job, given: str | int) -> errors.BadInput:
    """The error for a replica that a job does not have."""
    what = f"rank {given}" if isinstance(given, int) else f"replica {given}"
    if counts_ranks(job):
        last = job.total - 1
        known = "its only rank is 0" if not last else f"its ranks are 0 to {last}"
        return errors.BadInput(f"{id} has no {what}", hint=f"{known}: bireme logs {id} --rank {last}")
    names = ", ".join(list(replica_names(job))[:_MOST_NAMED])
    return errors.BadInput(f"{id} has no {what}", hint=f"its replicas are {names}")


def _shown(role: Role) -> int:
    return 1 if role.naming is Naming.ROLE else role.replicas
