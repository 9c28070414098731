"""One job of a cluster: seen, followed, suspended, scaled and removed."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from bireme import errors
from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.backends.kubernetes.pod_logs import LogPosition
from bireme.backends.kubernetes.submit import code_mounts, job_client
from bireme.backends.local.preflight import python_finder
from bireme.model.replicas import ReplicaPhase
from bireme.model.status import Phase
from bireme.runs.logs.log_reader import EVERYTHING, LogLine, LogSelection
from bireme.sdk import rank_names, scale_requests, tracebacks
from bireme.sdk.backends import STOP_PATIENCE
from bireme.sdk.cluster import cluster_progress, cluster_views
from bireme.sdk.cluster.cluster_follower import ClusterWatch
from bireme.sdk.cluster.cluster_views import JobSnapshot
from bireme.sdk.cluster.pod_history import ReplicaPod
from bireme.sdk.cluster.session import Session
from bireme.sdk.diagnosis import TAIL
from bireme.sdk.views import JobView, RankStack

if TYPE_CHECKING:  # see `places`
    from bireme.sdk.tensorboards import Curves

_LOOK_EVERY = 0.3
_MOST_TAILS = 16
"""Failed replicas whose last lines are looked at to find the first one."""
_LOOK_BACK = 50


class ClusterJob:
    """A job object; what is done with it concerns that very one, not a later one of its name."""

    def __init__(
        self,
        session: Session,
        job_object: JobObject,
        id: str,
        context: str,
        home: Path,
        forget: Callable[[], None],
    ) -> None:
        self._session, self._object, self._context, self._forget = session, job_object, context, forget
        self.id = id
        # A name for a folder, whatever a server calls its objects.
        meta = job_object.metadata
        self._board = home / "boards" / re.sub(r"[^a-z0-9.-]", "_", f"{meta.name}-{meta.uid[:8]}")

    @property
    def key(self) -> str:
        meta = self._object.metadata
        return f"{self._context}/{meta.namespace}/{self._object.kind.lower()}/{meta.name}"

    def view(self) -> JobView:
        return self._session.ask(self._view)

    def watch(self, choice: LogSelection = EVERYTHING) -> ClusterWatch:
        return ClusterWatch(self._session, self._object, self.id, self._context, choice)

    def attending(self) -> AbstractContextManager[None]:
        return nullcontext()  # a pod has no standard input of this machine

    def stacks(self, rank: int | None) -> tuple[RankStack, ...]:
        seen = self._session.ask(self._look)
        by_short = rank_names.replica_names(seen.job)
        asked = rank_names.replica_of_rank(seen.job, rank or 0)
        if asked is None and rank is not None:
            raise errors.BadInput(f"{self.id} has no rank {rank}", hint=f"`bireme show {self.id}` lists them")
        replica = asked or next(iter(by_short.values()), f"{self.id}-worker-0")
        there = {pair.replica.name: pair.pod.metadata.name for pair in seen.pods}
        raise errors.BadInput(
            f"{self.id} runs in a cluster, where ranks are asked in their pods",
            hint=f"kubectl -n {self._object.metadata.namespace} exec {there.get(replica, replica)} "
            "-- py-spy dump --pid 1 "
            f"(py-spy in the image; `bireme show {self.id}` names the pods)",
        )

    def replica(self, given: str | int) -> str:
        seen = self._session.ask(self._look)
        found = rank_names.replica_named(seen.job, given)
        if found is not None:
            return found
        for pair in seen.pods:
            if given in (pair.pod.metadata.name, pair.replica.name):
                return pair.replica.name
        raise rank_names.no_such_replica(self.id, seen.job, given)

    def checkpoints_at(self) -> str:
        manifest = {"spec": msgspec.json.decode(self._object.spec)}
        found = code_mounts.variable(manifest, "BIREME_CHECKPOINTS")
        if "://" not in found:
            where = f"in {found} of its pods" if found else "inside of its pods"
            raise errors.BadInput(
                f"{self.id} keeps its checkpoints {where}, which cannot be read from here",
                hint="write `checkpoints: s3://bucket/prefix` into the job to have them in an object store",
            )
        return found

    def python(self, environ: Mapping[str, str]) -> str:
        return python_finder.find(environ)

    def curves(self) -> Curves:
        from bireme.sdk.tensorboards import Curves

        watch = self.watch()
        feed = cluster_progress.ClusterFeed(watch)
        return Curves(self._board, (feed,), watch.exists, watch.close, lambda: feed.room.is_full)

    def stop(self) -> JobView:
        def is_suspended(seen: JobSnapshot) -> bool:
            phase = seen.status.phase
            if not seen.job.policy.suspend:
                return True  # it was resumed meanwhile
            is_alive = any(each.replica.is_alive for each in seen.pods)
            return phase.is_final or (phase is Phase.SUSPENDED and not is_alive)

        async def stop(api: Api) -> JobView:
            seen = await self._look(api)
            if not seen.status.phase.is_final:
                await job_client.suspend(api, self._object, True)
                await self._until(api, seen, "stopped", is_suspended)
            return await self._view(api)

        return self._session.ask(stop)

    def resume(self) -> JobView:
        async def resume(api: Api) -> JobView:
            seen = await self._look(api)
            phase = seen.status.phase
            if phase is not Phase.FAILED:
                if phase.is_final:
                    raise errors.BadInput(
                        f"{self.id} has ended ({phase})",
                        hint="run it again with `bireme run`, after `bireme rm` or with another name",
                    )
                await job_client.suspend(api, self._object, False)
                return await self._view(api)
            # Only some operators can resume a job that has failed.
            if reason := cluster_views.unresumable(seen):
                raise errors.BadInput(
                    f"{self.id} has ended ({phase}), and {reason}",
                    hint="run it again under another name, with the same checkpoints: or with --from",
                )
            wished = seen.status.resumes + 1
            await job_client.resume(api, self._object, wished)
            await self._until(
                api, seen, "been picked up by its operator", lambda now: now.status.resumes >= wished
            )
            return await self._view(api)

        return self._session.ask(resume)

    def scale(self, replicas: Mapping[str, int]) -> JobView:
        async def scale(api: Api) -> JobView:
            seen = await self._look(api)
            changed = scale_requests.resized(self.id, seen.job, replicas, seen.status.phase)
            counts = {role.name: role.replicas for role in changed.roles}
            gone = [role.name for role in seen.job.roles if changed.role(role.name) is None]
            await job_client.scale(api, seen.object, counts, gone)
            return await self._view(api)

        return self._session.ask(scale)

    def remove(self) -> None:
        async def remove(api: Api) -> None:
            seen = await self._look(api)
            await job_client.delete(api, self._object)
            await self._until(api, seen, "gone", lambda _: False)

        self._session.ask(remove)
        self._forget()
        shutil.rmtree(self._board, ignore_errors=True)

    # Inside the event loop

    async def _look(self, api: Api) -> JobSnapshot:
        """The job as it is now; raises if it is gone."""
        now, pods, events = await asyncio.gather(
            job_client.again(api, self._object),
            job_client.pods(api, self._object),
            job_client.events(api, self._object),
        )
        if now is None:
            self._forget()
            raise errors.BadInput(f"{self.id} does not exist any more", hint="`bireme ps --all` lists jobs")
        return cluster_views.seen(self.id, self._context, now, pods, time.time(), events)

    async def _view(self, api: Api) -> JobView:
        seen = await cluster_progress.measured(api, await self._look(api))
        if seen.status.phase is not Phase.FAILED and not seen.status.crashes and not seen.status.evictions:
            return cluster_views.view(seen)
        failed = [
            each for each in seen.pods if each.replica.phase is ReplicaPhase.FAILED or each.replica.restarts
        ]
        chosen = failed[:_MOST_TAILS]
        read = await asyncio.gather(*(_tail(api, each) for each in chosen))
        tails = {each.pod.metadata.uid: lines for each, lines in zip(chosen, read, strict=True) if lines}
        places = {
            (each.replica.name, each.replica.attempt): tracebacks.crash_place([line.text for line in lines])
            for each in seen.pods
            if (lines := tails.get(each.pod.metadata.uid))
        }
        seen = replace(
            seen,
            last_lines={uid: lines[-1].time for uid, lines in tails.items()},
            crashes={key: place for key, place in places.items() if place},
        )
        found = cluster_views.explained(seen)
        if found is None or found.error is None:
            return cluster_views.view(seen)
        named = [pair.pod.metadata.uid for pair in seen.pods if pair.replica.name == found.error.replica]
        lines = [line for uid in named for line in tails.get(uid, ())]
        texts = tuple(line.text for line in lines if line.text.strip())
        return cluster_views.view(seen, tracebacks.crash(texts)[:TAIL] or texts[-TAIL:])

    async def _until(
        self, api: Api, before: JobSnapshot, what: str, holds: Callable[[JobSnapshot], bool]
    ) -> None:
        """Waits until something holds, or the job is gone; not much longer than its replicas' grace."""
        grace = max((role.pod.grace for role in before.job.roles), default=0.0)
        end = time.monotonic() + grace + STOP_PATIENCE
        while (now := await job_client.again(api, self._object)) is not None:
            pods = await job_client.pods(api, self._object)
            if holds(cluster_views.seen(self.id, self._context, now, pods, time.time())):
                return
            if time.monotonic() > end:
                raise errors.Unreachable(
                    f"{self.id} has not {what} within {grace + STOP_PATIENCE:g} s",
                    hint=f"look: bireme show {self.id}; is its operator alive: bireme doctor --on kubernetes",
                )
            await asyncio.sleep(_LOOK_EVERY)


async def _tail(api: Api, pair: ReplicaPod) -> list[LogLine]:
    found: list[LogLine] = []
    for source in pod_logs.sources(pair.pod, pair.replica.name):
        lines = await pod_logs.read(api, source, LogPosition(last=_LOOK_BACK))
        found += [line for line in lines if line.stream != pod_logs.ECHO]
    return sorted(found, key=lambda line: line.time)
