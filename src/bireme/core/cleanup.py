"""What is left to do after the end: who is stopped, what is given back, when the job is hidden."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core import clock
from bireme.model.decisions import Abandon, Action, Decision, Release, Stop
from bireme.model.job import CleanPods, Job
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Phase, Status


def after_end(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Clean up behind a job that succeeded or failed; its verdict never changes."""
    actions: list[Action] = [
        removal(one, for_good=True)
        for one in observation.replicas
        if not one.stopping and _goes(job, status, one, now)
    ]
    actions += [removal(one) for one in observation.replicas if one.abandoned and one.stopping]
    if observation.admission is not None and not any(one.is_alive for one in observation.replicas):
        actions.append(Release())
    ttl_ends = _ttl_ends(job, status)
    expired = status.expired or (ttl_ends is not None and now >= ttl_ends)
    timers = [] if expired else [ttl_ends]
    if any(one.is_alive and not one.stopping for one in observation.replicas):
        timers.append(_linger_ends(job, status, now))
    return Decision(
        replace(status, expired=expired, waiting=""),
        tuple(actions),
        wake_at=min((time for time in timers if time is not None and time > now), default=None),
    )


def removal(replica: Replica, grace: float | None = None, *, for_good: bool = False) -> Action:
    """The action that removes a replica, whatever has become of it."""
    if replica.abandoned:
        return Abandon(replica.name, replica.uid)
    return Stop(replica.name, replica.uid, grace, for_good)


def _goes(job: Job, status: Status, replica: Replica, now: float) -> bool:
    match job.policy.clean_pods:
        case CleanPods.ALL:
            return True
        case CleanPods.RUNNING:
            return replica.is_alive
        case CleanPods.NONE:
            ends = _linger_ends(job, status, now)
            return replica.is_alive and ends is not None and now >= ends


def _linger_ends(job: Job, status: Status, now: float) -> float | None:
    """When replicas that outlive the job are stopped: after a failure at once."""
    if job.policy.linger is None or status.completed is None:
        return None
    if clock.is_ahead(status.completed, now):
        return now  # nobody can tell how long they have had, and nothing is lost with them
    return status.completed + (job.policy.linger if status.phase is Phase.SUCCEEDED else 0.0)


def _ttl_ends(job: Job, status: Status) -> float | None:
    if job.policy.ttl is None or status.completed is None:
        return None
    return status.completed + job.policy.ttl
