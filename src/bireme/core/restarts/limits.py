"""Ends a job that has used up its time, its crashes or its evictions."""

from __future__ import annotations

from bireme.model.job import Job
from bireme.model.status import Status


def exceeded(job: Job, status: Status, now: float) -> str | None:
    """The sentence that ends the job, or None."""
    policy = job.policy
    # Losses before the last progress, or before the job was resumed, no longer count.
    crashes = status.crashes - status.progress.crashes
    evictions = status.evictions - status.progress.evictions
    if is_out_of_time(job, status, now):
        return f"Job {job.name} has failed because it was active longer than specified deadline"
    if policy.backoff_limit is not None and crashes > policy.backoff_limit:
        return f"Job {job.name} has failed because it has reached the specified backoff limit"
    if evictions > policy.eviction_limit:
        return (
            f"Job {job.name} has failed because it was evicted {evictions} times, "
            f"more than the {policy.eviction_limit} that are allowed"
        )
    return None


def is_out_of_time(job: Job, status: Status, now: float) -> bool:
    due = deadline(job, status)
    return due is not None and now >= due


def deadline(job: Job, status: Status) -> float | None:
    """The time at which the job is over its deadline; None if it has none or has not started."""
    if job.policy.deadline is None or status.started is None:
        return None
    return status.started + job.policy.deadline
