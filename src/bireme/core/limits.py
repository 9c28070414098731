"""Has a job used up what it was given: its time, its crashes, its evictions."""

from __future__ import annotations

from bireme.model.job import Job
from bireme.model.status import Status


def exceeded(job: Job, status: Status, now: float) -> str | None:
    """The sentence that ends the job, or None."""
    policy = job.policy
    if policy.deadline is not None and status.started is not None and now >= status.started + policy.deadline:
        return f"Job {job.name} has failed because it was active longer than specified deadline"
    if policy.backoff_limit is not None and status.crashes > policy.backoff_limit:
        return f"Job {job.name} has failed because it has reached the specified backoff limit"
    if status.evictions > policy.eviction_limit:
        return (
            f"Job {job.name} has failed because it was evicted {status.evictions} times, "
            f"more than the {policy.eviction_limit} that are allowed"
        )
    return None


def deadline(job: Job, status: Status) -> float | None:
    """When the job's time is over."""
    if job.policy.deadline is None or status.started is None:
        return None
    return status.started + job.policy.deadline
