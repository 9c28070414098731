"""Says how far a job of a cluster is, by the log of its leading rank."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.core.machine.progress import Progress
from bireme.model.job import Job
from bireme.model.status import Phase
from bireme.runs.logs.log_reader import LogLine
from bireme.runs.metrics import progress_reader
from bireme.sdk import rank_names
from bireme.sdk.cluster.cluster_views import Seen
from bireme.sdk.cluster.pod_history import ReplicaPod

_HEAD = 1 << 16
"""Bytes at the beginning of a log, where a rank tells its parameters."""
_LINES = 200
_MOST_JOBS = 20
"""Of a list: each of them costs two requests."""
_PATIENCE = 1.0
"""Seconds for all logs of a list, which is to be shown whether they come or not."""


async def all_measured(api: Api, found: Sequence[Seen]) -> list[Seen]:
    """The same jobs, the running ones with how far they are, as far as that can be told soon."""
    running = [one for one in found if one.status.phase is Phase.RUNNING][:_MOST_JOBS]
    asked = {one.object.metadata.uid: asyncio.ensure_future(measured(api, one)) for one in running}
    if asked:
        _, late = await asyncio.wait(asked.values(), timeout=_PATIENCE)
        for one in late:
            one.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    answers = {uid: one.result() for uid, one in asked.items() if not one.cancelled() and not one.exception()}
    return [answers.get(one.object.metadata.uid, one) for one in found]


async def measured(api: Api, seen: Seen) -> Seen:
    """The same job with how far it is; what cannot be read is left out."""
    leader = _leader(seen)
    sources = pod_logs.sources(leader.pod, leader.replica.name) if leader is not None else []
    if not sources:
        return seen
    try:
        head, tail = await asyncio.gather(
            pod_logs.beginning(api, sources[-1], _HEAD), pod_logs.ending(api, sources[-1], _LINES)
        )
    except (ApiError, OSError, TimeoutError):
        return seen  # who may not read logs still sees the rest
    return replace(seen, progress=of_lines(seen.job, head, tail))


def of_lines(job: Job, head: Iterable[LogLine], tail: Sequence[LogLine]) -> Progress | None:
    """How far a job is, by the lines of its leading replica."""
    told = [line.text for line in (*head, *tail) if line.stream == pod_logs.ECHO]
    printed = [line for line in tail if line.stream != pod_logs.ECHO]
    return progress_reader.echoed(told) or progress_reader.found_in(printed, job)


def _leader(seen: Seen) -> ReplicaPod | None:
    """The pod of the lowest rank in this attempt, else the first one that is there."""
    present = [one for one in seen.pods if one.replica.attempt == seen.status.attempt]

    def rank(one: ReplicaPod) -> tuple[bool, int, str]:
        role = seen.job.role(one.replica.role)
        found = None if role is None else rank_names.rank_of(seen.job, role, one.replica.index)
        return found is None, found or 0, one.replica.name

    return min(present, key=rank, default=None)
