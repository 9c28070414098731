"""Listens to one job of a cluster in the background, inside the event loop.

The job and its pods are watched; each container's log is a stream of its own, made again when it breaks. What
was seen of a pod is kept when the pod is gone, so that the cause of a restart can be said.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.client.informer import Cache
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.pod_logs import LogPosition, LogSource
from bireme.backends.kubernetes.submit import job_client
from bireme.runs.logs.log_reader import LogLine, LogSelection

_AT_ONCE = 32
"""Logs that are read to their end at the same time."""
_KEPT = 50
"""Lines that are kept of each pod."""
MOST_STREAMS = 200
"""Logs that are followed at the same time: each takes a connection."""

Key = tuple[str, str]
"""The uid of a pod, and a container of it."""


class Listener:
    """Everything that is heard about a job. What a caller in another thread reads is replaced as a whole."""

    def __init__(
        self, api: Api, job_object: JobObject, choice: LogSelection, named: Callable[[Pod], str]
    ) -> None:
        self.object: JobObject | None = job_object
        self.pods: tuple[Pod, ...] = ()
        """Those that are gone included, as they were last."""
        self.gone: frozenset[str] = frozenset()
        self.version = 0
        """Grows with every change of the job or a pod."""
        self.lines: deque[LogLine] = deque()
        self.echoes: deque[LogLine] | None = None
        """What ranks reported, for a reader that puts a queue here; otherwise it is left out."""
        self.tails: dict[str, deque[LogLine]] = {}
        """The last lines of each pod, by its uid."""
        self.ready = asyncio.Event()
        self._api, self._job_object, self._choice, self._named = api, job_object, choice, named
        self._marks: dict[Key, LogPosition] = {}
        self._streams: dict[Key, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._reads_on = False
        self._names: dict[str, str] = {}
        self._said_more = False
        meta = job_object.metadata
        self._jobs = Cache(
            api,
            path(job_object.apiVersion, kinds.named(job_object.kind).plural, meta.namespace),
            JobObject,
            self._job_changed,
            fields=f"metadata.name={meta.name}",
        )
        self._pods = Cache(
            api,
            path("v1", "pods", meta.namespace),
            Pod,
            self._pod_changed,
            labels=job_client.pod_selector(job_object),
        )

    @property
    def trouble(self) -> str:
        """Why what we know may be out of date; empty if nothing is wrong."""
        found = self._jobs.trouble or self._pods.trouble
        return explained(found).what.splitlines()[0] if found is not None else ""

    @property
    def is_silent(self) -> bool:
        """Whether no log is being read."""
        return all(task.done() for task in self._streams.values())

    async def run(self) -> None:
        """Listens until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._jobs.run())
            group.create_task(self._pods.run())
            await self._jobs.synced()
            await self._pods.synced()
            self.ready.set()

    async def read_on(self) -> None:
        """Lets lines come by themselves from now on."""
        self._reads_on = True
        for pod in self.pods:
            self._open_streams(pod)

    async def read_rest(self) -> list[LogLine]:
        """The lines that are there and were not returned yet; lines stop to come by themselves."""
        self._reads_on = False
        running = [task for task in self._streams.values() if not task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._streams.clear()
        found = []
        while self.lines:
            found.append(self.lines.popleft())
        turn = asyncio.Semaphore(_AT_ONCE)

        async def read(source: LogSource) -> list[LogLine]:
            async with turn:
                return await pod_logs.read(self._api, source, self._mark(source))

        sources = [source for pod in self.pods for source in self._sources(pod)]
        for source, lines in zip(sources, await asyncio.gather(*map(read, sources)), strict=True):
            found += [line for line in lines if self._heard(source, line)]
        return sorted(found, key=lambda line: line.time)

    def _job_changed(self, before: JobObject | None, now: JobObject | None) -> None:
        if now is not None and now.metadata.uid == self._job_object.metadata.uid:
            self.object = replace(now, apiVersion=self._job_object.apiVersion, kind=self._job_object.kind)
        else:
            self.object = None
        self.version += 1

    def _pod_changed(self, before: Pod | None, now: Pod | None) -> None:
        changed = now or before
        if changed is None or not job_client.belongs(changed, self._job_object):
            return
        if now is None:
            self.gone |= {changed.metadata.uid}
        others = tuple(pod for pod in self.pods if pod.metadata.uid != changed.metadata.uid)
        self.pods = (*others, changed)
        self.version += 1
        self._open_streams(changed)

    def _open_streams(self, pod: Pod) -> None:
        if not self._reads_on or self._group is None:
            return
        for source in self._sources(pod):
            key = (source.uid, source.container)
            if key in self._streams:
                continue
            if sum(not task.done() for task in self._streams.values()) >= MOST_STREAMS:
                if not self._said_more:
                    # Said once; the others are read when the job has ended.
                    self._said_more = True
                    text = f"bireme: {MOST_STREAMS} logs are followed; the others come at the end of the job"
                    self.lines.append(LogLine(time.time(), source.replica, source.container, "", text))
                continue
            self._streams[key] = self._group.create_task(self._follow(source))

    async def _follow(self, source: LogSource) -> None:
        def heard(line: LogLine) -> None:
            if self._heard(source, line):
                self.lines.append(line)

        def has_ended() -> bool:
            is_gone = source.uid in self.gone
            pod = next((pod for pod in self.pods if pod.metadata.uid == source.uid), None)
            return is_gone or pod_logs.has_ended(pod, source.container)

        await pod_logs.follow(self._api, source, self._mark(source), heard, has_ended)

    def _sources(self, pod: Pod) -> list[LogSource]:
        """The logs of a pod that can be read and are wanted."""
        uid = pod.metadata.uid
        if uid in self.gone:
            return []
        if uid not in self._names:
            self._names[uid] = self._named(pod)
        wanted = self._choice.replica
        return pod_logs.sources(pod, self._names[uid]) if wanted in (None, self._names[uid]) else []

    def _mark(self, source: LogSource) -> LogPosition:
        key = (source.uid, source.container)
        if key not in self._marks:
            self._marks[key] = LogPosition(self._choice.since, self._choice.last)
        return self._marks[key]

    def _heard(self, source: LogSource, line: LogLine) -> bool:
        """Returns whether a line is for people to read."""
        if line.stream == pod_logs.ECHO:
            if self.echoes is not None:
                self.echoes.append(line)
            return False
        self.tails.setdefault(source.uid, deque(maxlen=_KEPT)).append(line)
        return True
