"""Cleans up behind a job that has ended: stops replicas, gives back resources, lets the job expire."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core import clock
from bireme.model.decisions import Abandon, Action, Decision, Release, Stop
from bireme.model.job import CleanPods, Job
from bireme.model.replicas import Observation, Replica
from bireme.model.status import Phase, Status


def after_end(job: Job, status: Status, observation: Observation, now: float) -> Decision:
    """Clean up behind a job that succeeded or failed; its verdict never changes."""
    policy, completed = job.policy, status.completed
    linger_ends = ttl_ends = None
    if policy.linger is not None and completed is not None:
        # After a failure there is nothing that the replicas that are left could still do.
        linger_ends = completed + (policy.linger if status.phase is Phase.SUCCEEDED else 0.0)
        if clock.is_ahead(completed, now):
            linger_ends = now  # how long they have had cannot be told, and nothing is lost with them
    if policy.ttl is not None and completed is not None:
        ttl_ends = completed + policy.ttl

    all_go = policy.clean_pods is CleanPods.ALL
    live_go = policy.clean_pods is CleanPods.RUNNING or (linger_ends is not None and now >= linger_ends)
    actions: list[Action] = [
        removal(replica, for_good=True)
        for replica in observation.replicas
        if not replica.stopping and (all_go or (live_go and replica.is_alive))
    ]
    actions += [
        removal(replica) for replica in observation.replicas if replica.abandoned and replica.stopping
    ]
    # Not before the last replica is gone: another job would be given devices that are still in use.
    if observation.admission is not None and not any(replica.is_alive for replica in observation.replicas):
        actions.append(Release())

    expired = status.expired or (ttl_ends is not None and now >= ttl_ends)
    timers = [] if expired else [ttl_ends]
    if any(replica.is_alive and not replica.stopping for replica in observation.replicas):
        timers.append(linger_ends)
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
