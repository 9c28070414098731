"""How do replicas run in a cluster: as pods, seen through watches, made and removed by requests."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.client.scoped_informers import Scoped
from bireme.backends.kubernetes.gang_admission import Gangs
from bireme.backends.kubernetes.objects import mpi_objects, mpi_pods, pod_builder, services
from bireme.backends.kubernetes.objects.api_types import Node, Pod, PodGroup
from bireme.backends.kubernetes.objects.labels import JOB_NAME, written
from bireme.backends.kubernetes.observe import pod_status
from bireme.backends.kubernetes.observe.pod_index import PodIndex, owner
from bireme.backends.kubernetes.owned_objects import OwnedObjects, foreign, unwatched
from bireme.backends.kubernetes.request_turns import Pacer, Turns
from bireme.model.decisions import Abandon, Action, Admit, File, Release, Start, Stop
from bireme.model.job import Job, Kind, RestartScope, replica_ids
from bireme.model.replicas import Addresses, Admission, Fault, Granted, Observation, Replica
from bireme.model.status import Phase
from bireme.model.stored import Stored

SHORTEST_GRACE = 1
"""Seconds: with none at all a pod would be forgotten before its end is seen."""
AT_ONCE = 24
"""Replicas of all jobs that are started or removed side by side: more would not be faster, each connection
costs memory, and whatever else is to be sent, such as the renewal of a lease, would wait behind them."""
UNSCHEDULABLE = "Unschedulable"
"""The reason of a pod for which its scheduler finds no node."""
_log = logging.getLogger(__name__)


class Settings(Struct, frozen=True):
    """What an administrator chooses."""

    domain: str = ""
    """The cluster's domain, where names that carry it are wanted."""
    gang_scheduler: str = ""
    """`volcano`, the name of a scheduler with the scheduler plugins, or nothing."""


class Counting(Struct):
    """What the backend did, for whoever wants to know."""

    created: int = 0
    deleted: int = 0


class ClusterBackend:
    """The pods of all jobs."""

    def __init__(
        self,
        api: Api,
        pods: Scoped[Pod],
        nodes: Scoped[Node] | None,
        templates: Callable[[str], Mapping[str, dict[str, Any]]],
        look_at: Callable[[str, float], None],
        clock: Callable[[], float],
        settings: Settings,
        groups: Scoped[PodGroup] | None = None,
    ) -> None:
        self._api, self._pods, self._nodes = api, pods, nodes
        self._templates, self._look_at, self._clock = templates, look_at, clock
        self._settings = settings
        self._belongings = OwnedObjects(api)
        self._gangs = Gangs(api, settings.gang_scheduler, groups)
        self._faults: dict[str, dict[str, Fault]] = {}
        self._lacks: dict[str, Fault] = {}
        self._jobs: dict[str, Job] = {}
        self._files: dict[str, tuple[File, ...]] = {}
        self._caught_up: dict[str, str] = {}
        self._seen: dict[str, tuple[str, bool, Replica]] = {}
        self._turns = Turns(AT_ONCE)
        self._pacer = Pacer(clock)
        self.index = PodIndex()
        self.counting = Counting()

    def forget(self, key: str, uid: str) -> None:
        """Drop what is kept of a job that is gone."""
        for kept in (self._faults, self._lacks, self._jobs, self._files):
            kept.pop(key, None)
        self._pacer.forget(key)
        self._caught_up.pop(uid, None)
        self._belongings.forget(uid)
        self._gangs.forget(uid)

    def gone(self, pod: Pod) -> None:
        """Drop what is kept of a pod that is gone."""
        self._seen.pop(pod.metadata.uid, None)

    async def see(self, key: str, stored: Stored) -> Observation:
        self._jobs[key] = stored.job
        await self._catch_up(stored)
        await self._follow(key, stored)
        admission = self._admission(stored)
        pods = self.index.of_job(stored.job.uid)
        replicas = sorted(map(self._replica, pods), key=lambda replica: (replica.role, replica.index))
        await self._ask_again(key, stored.job, replicas)
        return Observation(tuple(replicas), admission, self._current_faults(key, stored.job, replicas))

    async def publish(self, key: str, files: tuple[File, ...]) -> None:
        job = self._jobs.get(key)
        if job is None:
            return  # It was deleted since it was seen.
        self._files[key] = files
        await self._support(key, job, next(one.name for one in replica_ids(job)))

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> None:
        removals = [one for one in actions if isinstance(one, Stop | Abandon)]
        if removals and await self._pacer.remove(removals, lambda one: self._remove(job, one)):
            self._look_at(key, self._clock())
        for one in actions:
            match one:
                case Admit():
                    await self._form(key, job)
                case Release():
                    await self._gangs.dissolve(job)
                    await self._belongings.drop_autoscaler(job)
        starts = [one for one in actions if isinstance(one, Start)]
        if starts:
            await self._start_all(key, job, starts)

    def _current_faults(self, key: str, job: Job, replicas: list[Replica]) -> tuple[Fault, ...]:
        """What could not be made; a pod that is there was made after all, whatever its answer was."""
        faults = self._faults.get(key, {})
        wanted = {one.name for one in replica_ids(job)} - {one.name for one in replicas} if faults else set()
        for name in faults.keys() - wanted:
            del faults[name]
        lacks = self._lacks.get(key)
        return tuple(faults.values()) + ((lacks,) if lacks is not None else ())

    async def _catch_up(self, stored: Stored) -> None:
        """Look at the pods themselves where our watch may be behind what somebody else wrote of them.

        That is the operator before us, or one beside us for a moment. A pod that it saw and we do not would
        count as lost, one that it saw vanish and we still see would count twice.
        """
        job, since = stored.job, stored.not_before
        if not since or self._pods.is_at(job.namespace, since) or self._caught_up.get(job.uid) == since:
            return
        chosen = written({JOB_NAME: job.name})
        listing = await self._api.listing(path("v1", "pods", job.namespace), Pod, labelSelector=chosen)
        for pod in listing.items:
            if owner(pod) == job.uid:
                self._pods.learn(pod)
        there = {pod.metadata.uid for pod in listing.items}
        for pod in [one for one in self.index.of_job(job.uid) if one.metadata.uid not in there]:
            if int(pod.metadata.resourceVersion) <= int(listing.version):
                self._pods.forget(pod)
        self._caught_up[job.uid] = since

    def _replica(self, pod: Pod) -> Replica:
        node = self._node(pod)
        is_lost = pod_status.is_lost(pod, node)
        known = self._seen.get(pod.metadata.uid)
        version = pod.metadata.resourceVersion
        if known is not None and known[0] == version and known[1] == is_lost:
            return known[2]
        replica = pod_status.replica(pod, node)
        self._seen[pod.metadata.uid] = (version, is_lost, replica)
        return replica

    def _node(self, pod: Pod) -> Node | None:
        if self._nodes is None:
            return pod_status.READY_NODE
        return self._nodes.get("", pod.spec.nodeName)

    def _admission(self, stored: Stored) -> Admission | None:
        job, status = stored.job, stored.status
        over = status.phase.is_final or job.policy.suspend
        if over and not self._gangs.holds(job) and not self._belongings.has_autoscaler(job):
            return None
        names = frozenset(one.name for one in replica_ids(job))
        addresses = Addresses(domain=self._settings.domain, shift=status.fence)
        granted = Granted(status.attempt, names, addresses, together=bool(self._settings.gang_scheduler))
        return granted if over else self._gangs.admission(job, granted)

    async def _ask_again(self, key: str, job: Job, replicas: Iterable[Replica]) -> None:
        """Remind the scheduler of a gang that it found no place for."""
        if any(one.reason == UNSCHEDULABLE for one in replicas):
            with contextlib.suppress(ApiError):
                due = await self._gangs.ask_again(job, self._clock())
                if due is not None:
                    self._look_at(key, due)

    async def _follow(self, key: str, stored: Stored) -> None:
        """Bring up to date what a changed job has beside its pods: it may be that nobody starts or goes."""
        job, status = stored.job, stored.status
        is_over = status.phase.is_final or job.policy.suspend
        try:
            if mpi_objects.grants(job) and not self.index.has_kubeflow_launcher(job.uid):
                role = mpi_objects.launcher_role(job, self._workers(job))
                await self._belongings.withdraw(job, role, thoroughly=is_over)
            if is_over:
                return
            if self._gangs.holds(job) and (templates := self._fitting(key, job)):
                await self._gangs.form(job, templates)
            if status.phase is Phase.RUNNING:
                await self._belongings.keep_autoscaler(job)
        except ApiError as error:
            _log.warning("a change was refused", extra={"job": job.name, "error": error.message})

    # Starting.

    async def _form(self, key: str, job: Job) -> None:
        """Have the job placed as a whole; where that is refused, none of it can start."""
        templates = self._fitting(key, job)
        if not templates:
            return
        try:
            news = await self._gangs.form(job, templates)
        except ApiError as error:
            self._lacks[key] = _fault(next(one.name for one in replica_ids(job)), error)
            return
        if news:
            self._lacks.pop(key, None)
            self._look_at(key, self._clock())

    async def _start_all(self, key: str, job: Job, starts: list[Start]) -> None:
        self._faults.pop(key, None)  # What was refused before is told anew by this try.
        if not await self._support(key, job, starts[0].replica):
            self._look_at(key, self._clock())
        elif templates := self._fitting(key, job):
            extras = self._extras(job, starts[0].attempt)
            faults, is_over = await self._pacer.start(
                key, starts, lambda one: self._start(job, one, templates, extras)
            )
            if faults:
                self._faults[key] = faults
            if faults or is_over:
                self._look_at(key, self._clock())

    def _fitting(self, key: str, job: Job) -> Mapping[str, dict[str, Any]]:
        """The job's templates; none where it was deleted or written anew since: the next step sees that."""
        templates = self._templates(key)
        return templates if all(role.type in templates for role in job.roles) else {}

    async def _start(
        self, job: Job, start: Start, templates: Mapping[str, dict[str, Any]], extras: pod_builder.Extras
    ) -> Fault | None:
        role = job.role(start.role)
        assert role is not None, f"{start.replica} has a role that its job does not declare"
        # The pod is made when its turn comes: those of a large job together would fill the memory.
        async with self._turns.turn(job.uid):
            body = pod_builder.pod(job, role, templates[role.type], start, extras)
            service = services.service(job, role, start.index)
            try:
                # In this order a pod that is there has its service, whenever we are stopped in between.
                if service is not None:
                    await self._belongings.make_service(job, service)
                await self._create_pod(job, start.replica, body)
            except ApiError as error:
                # A name that is taken is the replica's own matter; a quota, or a busy server, everybody's.
                return replace(_fault(start.replica, error), alone=error.status == 409)
        return None

    async def _create_pod(self, job: Job, name: str, body: dict[str, Any]) -> None:
        if job.kind is Kind.MPI and name == mpi_pods.launcher_name(job):
            rival = self.index.kubeflow_launcher(job.namespace, job.name)
            await self._belongings.require_sole_launcher(job, rival)
        try:
            pod = await self._api.create(path("v1", "pods", job.namespace), body, Pod)
            self.counting.created += 1
        except ApiError as error:
            if not error.name_is_taken:
                raise
            # It was made already, by an earlier self whose answer was lost, or it is somebody else's.
            pod = await self._api.get(path("v1", "pods", job.namespace, name), Pod)
            if owner(pod) != job.uid:
                raise foreign("Pod", name) from error
            if JOB_NAME not in pod.metadata.labels:
                raise unwatched(name, job.namespace) from error
        self._pods.learn(pod)

    async def _support(self, key: str, job: Job, replica: str) -> bool:
        """Make what the pods need; where that is refused, the replica cannot start."""
        account = mpi_pods.named_account(self._templates(key).get("Launcher", {}))
        objects: list[dict[str, Any]] = []
        if not self.index.has_kubeflow_launcher(job.uid):
            objects = mpi_objects.supports(job, self._files.get(key, ()), self._workers(job), account)
        refused = await self._belongings.keep(job, objects, account if mpi_objects.grants(job) else "")
        if refused is None:
            self._lacks.pop(key, None)
            return True
        self._lacks[key] = _fault(replica, refused)
        return False

    def _workers(self, job: Job) -> frozenset[str]:
        """The pods of the job's own in which commands may be started: none that is about to go."""
        return frozenset(
            pod.metadata.name
            for pod in self.index.of_job(job.uid)
            if pod_status.role_of(pod) == "worker" and pod.metadata.deletionTimestamp is None
        )

    def _extras(self, job: Job, attempt: int) -> pod_builder.Extras:
        return pod_builder.Extras(
            domain=self._settings.domain,
            gang_scheduler=self._settings.gang_scheduler,
            host_aliases=self._aliases(job, attempt),
        )

    def _aliases(self, job: Job, attempt: int) -> dict[str, str]:
        """The address of the replica that the others look up.

        A gang comes and goes as a whole, so the address holds for as long as the replica that is told of it;
        DNS would still give the last attempt's for seconds.
        """
        meeting = kinds.module(job.kind).rendezvous_replica(job)
        if job.unit is not RestartScope.GANG or not meeting:
            return {}
        for pod in self.index.of_job(job.uid):
            one = self._replica(pod)
            if one.name == meeting and one.attempt == attempt and one.address:
                return {meeting: one.address}
        return {}

    # Removing.

    async def _remove(self, job: Job, action: Stop | Abandon) -> None:
        pod = self.index.find(job.uid, action.uid)
        if pod is None:
            return
        where = path("v1", "pods", job.namespace, action.replica)
        try:
            async with self._turns.turn(job.uid):
                left = await self._api.delete(where, Pod, uid=action.uid, grace=_grace(action))
        except ApiError as error:
            if error.status != 409:
                raise
            left = None  # Another pod has that name by now.
        self.counting.deleted += not pod_status.is_leftover(pod)  # Such a pod was counted before.
        if left is None or not _lives_on(left):
            self._pods.forget(pod)
        else:
            self._pods.learn(left)
        if isinstance(action, Stop) and action.for_good and job.kind is not Kind.MPI:
            await self._belongings.drop_service(job, action.replica)


def _grace(action: Stop | Abandon) -> int | None:
    if isinstance(action, Abandon):
        return 0
    return None if action.grace is None else max(SHORTEST_GRACE, round(action.grace))


def _lives_on(pod: Pod) -> bool:
    """Whether a pod whose removal was asked for is still there: until its kubelet says that it ended."""
    return bool(pod.metadata.deletionGracePeriodSeconds or pod.metadata.finalizers)


def _fault(replica: str, error: ApiError) -> Fault:
    """What a refused request means: a pod that the API calls invalid will not become valid."""
    return Fault(replica, f"Error creating: {error.message}", final=error.status in (400, 422))
