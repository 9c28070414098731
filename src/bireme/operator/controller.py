"""Runs all jobs of a cluster: watches say which job has news, and each of its turns is one step."""

from __future__ import annotations

import asyncio
import functools
import logging

from msgspec import Struct

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.informer import Scoped
from bireme.backends.kubernetes.objects import pod_groups
from bireme.backends.kubernetes.objects.api_types import NodeObject, Pod, PodGroup
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.pod_backend import ClusterBackend, Settings
from bireme.core.clock import Clock
from bireme.engine.step import Conflict, step
from bireme.kinds import SERVED
from bireme.kinds.kubeflow_labels import JOB_NAME
from bireme.operator.event_recorder import Teller
from bireme.operator.metrics import Metrics
from bireme.operator.store import ClusterStore, JobKey, version
from bireme.operator.workqueue import Queue

AT_ONCE = 32
"""Steps that are taken side by side: enough to keep an API server busy."""
ROUND = 0.02
"""Seconds in which the news of a job gather before a step looks at them all."""
ROUND_OF_EACH = 0.0005
"""Seconds more for each of its pods: a step looks at every one, whichever had news."""
LONGEST_WAIT = 300.0
"""Seconds after which a job is looked at unasked: a lost wake-up costs time, never correctness."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0

_log = logging.getLogger(__name__)


class Scope(Struct, frozen=True):
    """What an operator is responsible for."""

    namespaces: tuple[str, ...] = ()
    """No name means all of them."""
    kinds: tuple[str, ...] = SERVED
    nodes: bool = True
    """Whether nodes may be watched: without them a pod on a lost one is waited for."""


class Controller:
    """Everything between the API server and the steps."""

    def __init__(
        self,
        api: Api,
        scope: Scope,
        settings: Settings,
        metrics: Metrics,
        identity: str,
        clock: Clock,
    ) -> None:
        self._metrics, self._clock = metrics, clock
        self.queue = Queue(clock.time)
        self._keys: dict[str, str] = {}
        self._pauses: dict[str, float] = {}
        self.is_ready = False
        self._teller = Teller(api, identity, clock.time)
        self.jobs: dict[str, Scoped[JobObject]] = {}
        for plural in (kinds.named(kind).plural for kind in scope.kinds):
            changed = functools.partial(self._job_changed, plural)
            self.jobs[plural] = Scoped(api, (version(plural), plural), JobObject, changed, scope.namespaces)
        self.pods = Scoped(api, ("v1", "pods"), Pod, self._pod_changed, scope.namespaces, labels=JOB_NAME)
        self.nodes = Scoped(api, ("v1", "nodes"), NodeObject, self._node_changed) if scope.nodes else None
        self.groups: Scoped[PodGroup] | None = None
        if settings.gang_scheduler:
            resource = (pod_groups.api_version(settings.gang_scheduler), pod_groups.PLURAL)
            self.groups = Scoped(api, resource, PodGroup, self._group_changed, scope.namespaces)
        self.store = ClusterStore(api, self.jobs, self._teller, clock.time, metrics.recorded)
        self.backend = ClusterBackend(
            api, self.pods, self.nodes, self.store.templates, clock.time, settings, self.groups
        )
        done = self.backend.counting
        metrics.total("training_operator_created_pods_total", "Pods created", lambda: done.created)
        metrics.total("training_operator_deleted_pods_total", "Pods deleted", lambda: done.deleted)
        metrics.show("bireme_queue_length", "Jobs that wait for a step", lambda: len(self.queue))
        metrics.count("bireme_requests_total", "Requests to the API server", "request", lambda: api.requests)

    async def run(self) -> None:
        """Run jobs until cancelled, or until a watch is refused."""
        async with asyncio.TaskGroup() as tasks:
            seen = [cache for cache in (self.pods, self.nodes, self.groups) if cache is not None]
            for cache in seen:
                tasks.create_task(cache.run())
            for jobs in self.jobs.values():
                tasks.create_task(jobs.run())
            tasks.create_task(self._teller.run())
            # No step before all pods are known: one that is not seen yet would be made again.
            for cache in seen:
                await cache.synced()
            self.is_ready = True
            _log.info("watching", extra={"resources": list(self.jobs)})
            for _ in range(AT_ONCE):
                tasks.create_task(self._work())

    # Callbacks of the watches.

    def _job_changed(self, plural: str, before: JobObject | None, after: JobObject | None) -> None:
        known = after or before
        assert known is not None
        key = str(JobKey(plural, known.metadata.namespace, known.metadata.name))
        labels = {"job_namespace": known.metadata.namespace, "framework": kinds.named(known.kind).framework}
        if after is None or (before is not None and before.metadata.uid != after.metadata.uid):
            gone = before or known
            self._keys.pop(gone.metadata.uid, None)
            self.store.forget(key, gone.metadata.uid)
            self.backend.forget(key, gone.metadata.uid)
            self._metrics.deleted.add(**labels)
        if after is None:
            return
        if before is None:
            self._metrics.created.add(**labels)
        self._keys[after.metadata.uid] = key
        if (
            before is None
            or before.metadata.generation != after.metadata.generation
            or before.metadata.annotations != after.metadata.annotations
        ):
            self.queue.add(key)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        self.backend.index.changed(before, after)
        if after is None and before is not None:
            self.backend.gone(before)
        for pod in (before, after):
            if pod is not None and (owner := pod.metadata.controller) is not None:
                self._wake(owner.uid)

    def _node_changed(self, before: NodeObject | None, after: NodeObject | None) -> None:
        if before is not None and after is not None and before.is_ready == after.is_ready:
            return
        known = after or before
        assert known is not None
        for pod in self.backend.index.on_node(known.metadata.name):
            if (owner := pod.metadata.controller) is not None:
                self._wake(owner.uid)

    def _group_changed(self, before: PodGroup | None, after: PodGroup | None) -> None:
        if before is not None and after is not None and before.status.phase == after.status.phase:
            return
        for group in (before, after):
            if group is not None and (owner := group.metadata.controller) is not None:
                self._wake(owner.uid)

    def _wake(self, uid: str) -> None:
        key = self._keys.get(uid)
        if key is not None:
            gather = ROUND + ROUND_OF_EACH * self.backend.index.count(uid)
            self.queue.add_at(key, self._clock.time() + gather)

    # Steps.

    async def _work(self) -> None:
        while True:
            key = await self.queue.take()
            began = self._clock.monotonic()
            end = "done"
            try:
                decision = await step(key, self.store, self.backend, self._clock.time())
                self._pauses.pop(key, None)
                if decision is not None:
                    latest = self._clock.time() + LONGEST_WAIT
                    self.queue.add_at(key, min(decision.wake_at or latest, latest))
            except Conflict:
                end = "conflict"
            except (ApiError, OSError, TimeoutError) as error:
                _log.warning("a step did not succeed", extra={"job": key, "error": str(error)})
                end = "error"
            except Exception:
                # One job that we cannot handle must not end the others.
                _log.exception("a step failed", extra={"job": key})
                end = "bug"
            finally:
                if end != "done":
                    pause = self._pauses.get(key, _FIRST_PAUSE)
                    self._pauses[key] = min(pause * 2, _LONGEST_PAUSE)
                    self.queue.add_at(key, self._clock.time() + pause)
                self.queue.done(key)
            self._metrics.steps.add(end=end)
            self._metrics.step_seconds.add(self._clock.monotonic() - began)
