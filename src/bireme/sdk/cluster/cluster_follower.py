"""Follows a job of a cluster; it is polled, and tells what is new since the last look."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from msgspec.structs import replace

from bireme import errors
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.objects.api_types import Pod, seconds
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.model.status import Phase
from bireme.runs.logs.log_reader import LogLine, LogSelection
from bireme.sdk.cluster import cluster_views, pod_history
from bireme.sdk.cluster.cluster_views import JobSnapshot
from bireme.sdk.cluster.job_listener import Listener
from bireme.sdk.cluster.session import Session
from bireme.sdk.diagnosis import TAIL
from bireme.sdk.views import Diagnosis, Glance

REST = 5.0
"""Seconds for which replicas that outlive the verdict are still listened to."""
PATIENCE = 30.0
"""Seconds within which the job must have been seen once."""


class ClusterWatch:
    """Follows one job: its lines, and its state at a glance."""

    def __init__(
        self, session: Session, job_object: JobObject, id: str, context: str, choice: LogSelection
    ) -> None:
        self.id = id
        self.job = cluster_views.job_of(job_object)
        self._session, self._context, self._choice, self._object = session, context, choice, job_object
        self._task: Future[None] | None = None
        self._listener = session.ask(self._begin, PATIENCE)
        self._reads_on = False
        self._first = True
        self._ended: float | None = None
        self._version = -1
        self._seen: JobSnapshot | None = None

    def refresh(self) -> None:
        """Nothing is left to do: what is new comes by itself."""

    def poll(self) -> list[LogLine]:
        if not self._reads_on:
            self._session.ask(lambda api: self._listener.read_on())
            self._reads_on = True
        lines = []
        while self._listener.lines:
            lines.append(self._listener.lines.popleft())
        return sorted(lines, key=lambda line: line.time)

    def echoes(self) -> list[LogLine]:
        """The reports of ranks in the lines that came; they are kept from the first call on."""
        if self._listener.echoes is None:
            self._listener.echoes = deque()
        found = []
        while self._listener.echoes:
            found.append(self._listener.echoes.popleft())
        return found

    def starts(self) -> dict[str, list[tuple[float, int]]]:
        """When each replica was started, and in which attempt, as far as it was seen."""
        found: dict[str, list[tuple[float, int]]] = {}
        for pair in pod_history.paired(self.job, self._listener.pods):
            made = seconds(pair.pod.metadata.creationTimestamp) or 0.0
            found.setdefault(pair.replica.name, []).append((made, pair.replica.attempt))
        return {replica: sorted(each) for replica, each in found.items()}

    def drain(self) -> Iterator[LogLine]:
        lines = self._session.ask(lambda api: self._listener.read_rest())
        self._reads_on = False
        if self._first and self._choice.last is not None:
            lines = lines[-self._choice.last :] if self._choice.last else []
        self._first = False
        yield from lines

    def silence(self) -> str:
        return "" if self._present() else f"no pod of {self.id} is there, and logs go with their pods"

    def unfinished(self) -> LogLine | None:
        return None

    def glance(self) -> Glance:
        found = cluster_views.glance(self._look())
        trouble = self._listener.trouble
        return replace(found, trouble=trouble) if trouble and not found.trouble else found

    def why_restarted(self, attempt: int | None = None) -> Diagnosis | None:
        seen = self._made(self._listener.pods)  # the attempt that failed is gone, and was seen
        found = cluster_views.restarted(seen, attempt)
        if found is None or found.error is None:
            return found
        failed, name = found.error.attempt, found.error.replica
        tails = [
            self._listener.tails.get(pair.pod.metadata.uid, ())
            for pair in seen.pods
            if (pair.replica.name, pair.replica.attempt) == (name, failed)
        ]
        return cluster_views.with_tail(found, tuple(line.text for lines in tails for line in lines)[-TAIL:])

    def exists(self) -> bool:
        return self._listener.object is not None

    def is_removed(self) -> bool:
        found = self._listener.object
        return found is None or found.metadata.deletionTimestamp is not None

    def is_over(self) -> bool:
        seen = self._look()
        phase = seen.status.phase
        if phase.is_final:
            self._ended = self._ended or time.monotonic()
            return self._listener.is_silent or time.monotonic() - self._ended >= REST
        self._ended = None
        return phase is Phase.SUSPENDED and not any(pair.replica.is_alive for pair in seen.pods)

    def revive(self) -> bool:
        return False

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _begin(self, api: Api) -> Listener:
        def named(pod: Pod) -> str:
            return pod_history.paired(self.job, (pod,))[0].replica.name

        listener = Listener(api, self._object, self._choice, named)
        self._task = self._session.send(lambda _: listener.run())
        running = asyncio.wrap_future(self._task)
        ready = asyncio.ensure_future(listener.ready.wait())
        both: list[asyncio.Future[Any]] = [running, ready]  # Any: only which one comes first matters
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            ready.cancel()
            error = running.exception()
            while isinstance(error, BaseExceptionGroup):  # which the tasks of the listener end with
                error = error.exceptions[0]
            raise error or errors.OurBug("the job is not listened to any more")
        return listener

    def _look(self) -> JobSnapshot:
        """The job as it was last heard of; put together anew only when something changed."""
        version = self._listener.version
        if self._seen is None or version != self._version:
            self._seen, self._version = self._made(self._present()), version
            self.job = self._seen.job
        return replace(self._seen, now=time.time())

    def _made(self, pods: tuple[Pod, ...]) -> JobSnapshot:
        self._object = self._listener.object or self._object
        seen = cluster_views.seen(self.id, self._context, self._object, pods, time.time())
        last = {uid: lines[-1].time for uid, lines in self._listener.tails.items() if lines}
        return replace(seen, last_lines=last)

    def _present(self) -> tuple[Pod, ...]:
        listener = self._listener
        return tuple(pod for pod in listener.pods if pod.metadata.uid not in listener.gone)
