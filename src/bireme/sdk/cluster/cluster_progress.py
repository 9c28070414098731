"""Reads how far a job of a cluster is, and what its ranks reported, from the logs of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.core.machine.progress import Progress
from bireme.model.job import Job
from bireme.model.status import Phase
from bireme.runs.logs.log_metrics import EchoedRecords, Picker, SeriesLimit
from bireme.runs.logs.log_reader import LogLine
from bireme.runs.metrics import progress_reader
from bireme.runs.metrics.metric_reader import Reported
from bireme.sdk import rank_names
from bireme.sdk.cluster.cluster_follower import ClusterWatch
from bireme.sdk.cluster.cluster_views import JobSnapshot
from bireme.sdk.cluster.pod_history import ReplicaPod

_HEAD = 1 << 16
"""Bytes at the beginning of a log, where a rank tells its parameters."""
_LINES = 200
_MOST_JOBS = 20
"""Of a list: each of them costs two requests."""
_PATIENCE = 1.0
"""Seconds for all logs of a list, which is to be shown whether they come or not."""


async def all_measured(api: Api, found: Sequence[JobSnapshot]) -> list[JobSnapshot]:
    """The same jobs, the running ones with how far they are, as far as that can be found soon."""
    running = [job for job in found if job.status.phase is Phase.RUNNING][:_MOST_JOBS]
    asked = {job.object.metadata.uid: asyncio.ensure_future(measured(api, job)) for job in running}
    if asked:
        _, late = await asyncio.wait(asked.values(), timeout=_PATIENCE)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    answers = {
        uid: task.result() for uid, task in asked.items() if not task.cancelled() and not task.exception()
    }
    return [answers.get(job.object.metadata.uid, job) for job in found]


async def measured(api: Api, seen: JobSnapshot) -> JobSnapshot:
    """The same job with how far it is; what cannot be read is left out."""
    present = [each for each in seen.pods if each.replica.attempt == seen.status.attempt]

    def rank(each: ReplicaPod) -> tuple[bool, int, str]:
        role = seen.job.role(each.replica.role)
        found = None if role is None else rank_names.rank_of(seen.job, role, each.replica.index)
        return found is None, found or 0, each.replica.name

    # The pod of the lowest rank in this attempt, else the first pod that is there.
    leader = min(present, key=rank, default=None)
    sources = pod_logs.sources(leader.pod, leader.replica.name) if leader is not None else []
    if not sources:
        return seen
    try:
        head, tail = await asyncio.gather(
            pod_logs.beginning(api, sources[-1], _HEAD), pod_logs.ending(api, sources[-1], _LINES)
        )
    except (ApiError, OSError, TimeoutError):
        return seen  # a user who may not read logs still sees the rest
    return replace(seen, progress=of_lines(seen.job, head, tail))


def of_lines(job: Job, head: Iterable[LogLine], tail: Sequence[LogLine]) -> Progress | None:
    """How far a job is, by the lines of its leading replica."""
    echoes = [line.text for line in (*head, *tail) if line.stream == pod_logs.ECHO]
    printed = [line for line in tail if line.stream != pod_logs.ECHO]
    return progress_reader.echoed(echoes) or progress_reader.found_in(printed, job)


class ClusterFeed:
    """What ranks reported, and the numbers in what they printed; a feed of `Metrics`."""

    def __init__(self, watch: ClusterWatch) -> None:
        self._watch = watch
        self.room = SeriesLimit()
        self._picker = Picker(watch.job, self.room)
        self._echoed = EchoedRecords(self.room)
        self._watch.echoes()  # from now on they are kept
        self._reads_on = False

    def poll(self) -> list[Reported]:
        lines = self._watch.poll() if self._reads_on else list(self._watch.drain())
        self._reads_on = True
        starts = self._watch.starts() if self._picker and lines else {}
        picked = [record for line in lines for record in self._picker.reported(line, starts)]
        lines = sorted(self._watch.echoes(), key=lambda line: line.time)
        reported = [record for line in lines for record in self._echoed.reported(line.text)]
        # An attempt before the next one, from whichever pod it was heard first: what is said last counts.
        return [*picked, *sorted(reported, key=lambda record: record.life)]
