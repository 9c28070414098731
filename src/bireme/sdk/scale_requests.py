"""Applies a user's counts to a job: replicas of roles, or ranks of a script. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from bireme import errors, kinds
from bireme.kinds.contract import MOST_REPLICAS, WORKER
from bireme.model.job import Job
from bireme.model.status import Phase
from bireme.sdk import rank_names

ALL = "workers"
"""The name under which a count is given without a role, as `--workers` counts."""


def resized(id: str, job: Job, counts: Mapping[str, int], phase: Phase) -> Job:
    """The job with the counts, or the error that says why it cannot have them."""
    if phase.is_final:
        raise errors.BadInput(f"{id} has ended ({phase})", hint="only a job that has not ended can be scaled")
    if why := kinds.of(job).fixed_size(job):
        raise errors.BadInput(
            f"{id} {why}",
            hint="stop it, and run it again with another number of workers",
        )
    larger = _with_ranks(id, job, counts) if rank_names.counts_ranks(job) else _with_replicas(id, job, counts)
    problems = list(kinds.of(job).validate(larger))
    if problems:
        raise errors.BadInput(f"{id} cannot be scaled so: {problems[0].field}: {problems[0].text}")
    if larger.total > MOST_REPLICAS:
        raise errors.BadInput(f"a job has at most {MOST_REPLICAS} replicas, got {larger.total}")
    return larger


def _with_ranks(id: str, job: Job, counts: Mapping[str, int]) -> Job:
    wrong = next((name for name in counts if name not in (ALL, WORKER)), None)
    if wrong is not None:
        count = counts[wrong]
        raise errors.BadInput(
            f"the ranks of {id} are counted together, not by roles such as {wrong}",
            hint=f"bireme scale {id} {max(1, count)}",
        )
    count = list(counts.values())[-1]
    if count < 1:
        raise errors.BadInput(
            f"a script has at least 1 rank, got {count}", hint=f"to suspend it: bireme stop {id}"
        )
    return kinds.of(job).with_ranks(job, count)


def _with_replicas(id: str, job: Job, counts: Mapping[str, int]) -> Job:
    named: dict[str, int] = {}
    for name, count in counts.items():
        role = job.role(name)
        if role is None and name == ALL:
            role = job.role(WORKER) or (job.roles[0] if len(job.roles) == 1 else None)
        if role is None:
            known = ", ".join(role.name for role in job.roles)
            raise errors.BadInput(f"{id} has no role {name}", hint=f"its roles are {known}")
        named[role.name] = count
    for name, count in named.items():
        if count < 0:
            raise errors.BadInput(f"a role has at least 0 replicas, got {name}={count}")
    changed = (replace(role, replicas=named.get(role.name, role.replicas)) for role in job.roles)
    return replace(job, roles=tuple(changed))
