"""Runs replicas as pods: seen through watches, made and removed by requests."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.informer import Scoped
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.gang_admission import Gangs
from bireme.backends.kubernetes.objects import mpi_objects, mpi_pods, pod_builder
from bireme.backends.kubernetes.objects.api_types import NodeObject, Pod, PodGroup
from bireme.backends.kubernetes.objects.job_objects import selector
from bireme.backends.kubernetes.observe import pod_status
from bireme.backends.kubernetes.observe.pod_index import PodIndex, owner
from bireme.backends.kubernetes.owned_objects import OwnedObjects, foreign, unwatched
from bireme.backends.kubernetes.request_turns import Pacer, Turns
from bireme.kinds.kubeflow_labels import JOB_NAME
from bireme.model.decisions import Abandon, Action, Admit, Release, Remind, Repair, SharedFile, Start, Stop
from bireme.model.job import Job, RestartScope, replica_ids
from bireme.model.replicas import Addresses, Admission, Fault, Granted, Observation, Part, Replica
from bireme.model.stored import Stored

SHORTEST_GRACE = 1
"""Seconds: with none at all a pod would be forgotten before its end is seen."""
AT_ONCE = 24
"""Replicas of all jobs that are started or removed side by side: more would not be faster, each connection
costs memory, and whatever else is to be sent, such as the renewal of a lease, would wait behind them."""
_log = logging.getLogger(__name__)


class Settings(Struct, frozen=True):
    """What an administrator chooses."""

    domain: str = ""
    """The cluster's domain, where names that carry it are wanted."""
    gang_scheduler: str = ""
    """`volcano`, the name of a scheduler with the scheduler plugins, or nothing."""


class Counting(Struct):
    """What the backend did."""

    created: int = 0
    deleted: int = 0


class ClusterBackend:
    """The pods of all jobs."""

    def __init__(
        self,
        api: Api,
        pods: Scoped[Pod],
        nodes: Scoped[NodeObject] | None,
        templates: Callable[[str], Mapping[str, dict[str, Any]]],
        clock: Callable[[], float],
        settings: Settings,
        groups: Scoped[PodGroup] | None = None,
    ) -> None:
        self._api, self._pods, self._nodes = api, pods, nodes
        self._templates, self._clock, self._settings = templates, clock, settings
        self._owned = OwnedObjects(api)
        self._gangs = Gangs(api, settings.gang_scheduler, groups)
        self._faults: dict[str, dict[str, Fault]] = {}
        self._lacks: dict[str, Fault] = {}
        self._jobs: dict[str, Job] = {}
        self._files: dict[str, tuple[SharedFile, ...]] = {}
        self._caught_up: dict[str, str] = {}
        self._seen: dict[str, tuple[str, bool, Replica]] = {}
        self._missing_nodes: set[str] = set()
        """Nodes to which pods are bound and of which the server said that they do not exist."""
        self._pacer = Pacer(clock, Turns(AT_ONCE))
        self.index = PodIndex()
        self.counting = Counting()

    def forget(self, key: str, uid: str) -> None:
        """Drop what is kept of a job that is gone."""
        for kept in (self._faults, self._lacks, self._jobs, self._files):
            kept.pop(key, None)
        self._pacer.forget(key)
        self._caught_up.pop(uid, None)
        self._owned.forget(uid)
        self._gangs.forget(uid)

    def gone(self, pod: Pod) -> None:
        """Drop what is kept of a pod that is gone."""
        self._seen.pop(pod.metadata.uid, None)

    async def see(self, key: str, stored: Stored) -> Observation:
        job = stored.job
        self._jobs[key] = job
        await self._catch_up(stored)
        pods = list(self.index.of_job(job.uid))
        await self._look_for_nodes(pods)
        replicas = sorted(map(self._replica, pods), key=lambda replica: (replica.role, replica.index))
        # What could not be made; a pod that is there was made after all, whatever its answer was.
        faults = self._faults.get(key, {})
        if faults:
            missing = {wanted.name for wanted in replica_ids(job)} - {replica.name for replica in replicas}
            for name in faults.keys() - missing:
                del faults[name]
        lacks = self._lacks.get(key)
        return Observation(
            tuple(replicas),
            self._admission(stored),
            tuple(faults.values()) + ((lacks,) if lacks is not None else ()),
            drift=await self._drift(stored),
            unplaced_since=self._gangs.unplaced_since(job, pods),
        )

    async def publish(self, key: str, files: tuple[SharedFile, ...]) -> None:
        job = self._jobs.get(key)
        if job is None:
            return  # It was deleted since it was seen.
        self._files[key] = files
        await self._support(key, job, _first_name(job))

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> bool:
        again = False
        removals = [action for action in actions if isinstance(action, Stop | Abandon)]
        if removals:
            again = await self._pacer.remove(key, removals, lambda removal: self._remove(job, removal))
            # A name that is free now is waited for. One that a finalizer holds must not be asked for at once.
            struck_off = [removal.uid for removal in removals if isinstance(removal, Abandon)]
            again = again or any(self.index.find(job.uid, uid) is None for uid in struck_off)
        # Pods are made last: by then their group, and whatever else they are placed by, is as it should be.
        starts = [action for action in actions if isinstance(action, Start)]
        for action in actions:
            match action:
                case Admit():
                    again = await self._form(key, job) or again
                case Release():
                    await self._gangs.dissolve(job)
                    await self._owned.drop_autoscaler(job)
                case Repair(part):
                    refused = await self._repair(key, job, part)
                    if refused is not None and part is Part.POD_GROUP and starts:
                        # Pods that their group does not know of would be placed without the others.
                        self._lacks[key] = _fault(starts[0].replica, refused)
                        starts, again = [], True
                case Remind():
                    with contextlib.suppress(ApiError):  # It is reminded again a little later.
                        await self._gangs.remind(job, self._clock())
        return await self._start_all(key, job, starts) or again if starts else again

    async def _catch_up(self, stored: Stored) -> None:
        """Look at the pods themselves where our watch may be behind what another operator wrote of them.

        That is the operator before us, or one beside us for a moment. A pod that it saw and we do not would
        count as lost, one that it saw vanish and we still see would count twice.
        """
        job, since = stored.job, stored.not_before
        if not since or self._pods.is_at(job.namespace, since) or self._caught_up.get(job.uid) == since:
            return
        chosen = selector({JOB_NAME: job.name})
        listing = await self._api.listing(path("v1", "pods", job.namespace), Pod, labelSelector=chosen)
        for pod in listing.items:
            if owner(pod) == job.uid:
                self._pods.learn(pod)
        there = {pod.metadata.uid for pod in listing.items}
        for pod in [pod for pod in self.index.of_job(job.uid) if pod.metadata.uid not in there]:
            if int(pod.metadata.resourceVersion) <= int(listing.version):
                self._pods.forget(pod)
        # What else we made of the job, its services above all, that operator may have removed.
        self._owned.forget(job.uid)
        self._caught_up[job.uid] = since

    async def _look_for_nodes(self, pods: list[Pod]) -> None:
        """Ask for nodes that our watch does not know: where it is behind, a pod on a new node is not lost."""
        if self._nodes is None:
            return
        for name in {pod.spec.nodeName for pod in pods} - {""}:
            if self._nodes.get("", name) is not None:
                self._missing_nodes.discard(name)
            elif name not in self._missing_nodes:
                try:
                    self._nodes.learn(await self._api.get(path("v1", "nodes", name=name), NodeObject))
                except ApiError as error:
                    if error.status != 404:
                        raise
                    self._missing_nodes.add(name)

    def _replica(self, pod: Pod) -> Replica:
        node = None if self._nodes is None else self._nodes.get("", pod.spec.nodeName)
        if node is None and pod.spec.nodeName not in self._missing_nodes:
            node = pod_status.READY_NODE  # No node is given up for what our watch does not tell.
        is_lost = pod_status.is_lost(pod, node)
        known = self._seen.get(pod.metadata.uid)
        version = pod.metadata.resourceVersion
        if known is not None and known[0] == version and known[1] == is_lost:
            return known[2]
        replica = pod_status.replica(pod, node)
        self._seen[pod.metadata.uid] = (version, is_lost, replica)
        return replica

    def _admission(self, stored: Stored) -> Admission | None:
        job, status = stored.job, stored.status
        over = status.phase.is_final or job.policy.suspend
        if over and not self._gangs.holds(job) and not self._owned.has_autoscaler(job):
            return None
        names = frozenset(replica.name for replica in replica_ids(job))
        addresses = Addresses(domain=self._settings.domain, shift=status.fence)
        granted = Granted(status.attempt, names, addresses, together=bool(self._settings.gang_scheduler))
        return granted if over else self._gangs.admission(job, granted)

    async def _drift(self, stored: Stored) -> tuple[Part, ...]:
        """Which of the job's objects beside its pods do not say what it says now."""
        job = stored.job
        drift = []
        if mpi_objects.grants(job) and not self.index.has_kubeflow_launcher(job.uid):
            # One request for each job of an operator before us, and only when no right is needed any more.
            thoroughly = stored.status.phase.is_final or job.policy.suspend
            role = mpi_objects.launcher_role(job, self._workers(job))
            try:
                if await self._owned.grants_too_much(job, role, thoroughly=thoroughly):
                    drift.append(Part.LAUNCHER_ROLE)
            except ApiError as error:
                _log.warning("a role was not read", extra={"job": job.name, "error": error.message})
        if self._gangs.is_stale(job):
            drift.append(Part.POD_GROUP)
        if self._owned.autoscaler_differs(job):
            drift.append(Part.AUTOSCALER)
        return tuple(drift)

    # Upkeep.

    async def _repair(self, key: str, job: Job, part: Part) -> ApiError | None:
        """Bring a part up to date; a refusal is told, and does not keep the job from running as it is."""
        try:
            match part:
                case Part.LAUNCHER_ROLE:
                    await self._owned.withdraw(job, mpi_objects.launcher_role(job, self._workers(job)))
                case Part.AUTOSCALER:
                    await self._owned.keep_autoscaler(job)
                case Part.POD_GROUP:
                    if templates := self._fitting(key, job):
                        await self._gangs.form(job, templates)
        except ApiError as error:
            _log.warning("a change was refused", extra={"job": job.name, "error": error.message})
            return error
        return None

    # Starting.

    async def _form(self, key: str, job: Job) -> bool:
        """Have the job placed as a whole; tells whether its group is new or changed.

        Where that is refused, none of the job can start.
        """
        templates = self._fitting(key, job)
        if not templates:
            return False
        try:
            is_news = await self._gangs.form(job, templates)
        except ApiError as error:
            self._lacks[key] = _fault(_first_name(job), error)
            return False
        if is_news:
            self._lacks.pop(key, None)
        return is_news

    async def _start_all(self, key: str, job: Job, starts: list[Start]) -> bool:
        """Start as many as there is time for; tells whether something was refused or is left to do."""
        self._faults.pop(key, None)  # What was refused before is told anew by this try.
        if not await self._support(key, job, starts[0].replica):
            return True
        templates = self._fitting(key, job)
        if not templates:
            return False
        extras = pod_builder.Extras(
            domain=self._settings.domain,
            gang_scheduler=self._settings.gang_scheduler,
            host_aliases=self._aliases(job, starts[0].attempt),
        )
        faults, is_over = await self._pacer.start(
            key, starts, lambda start: self._start(job, start, templates, extras)
        )
        if faults:
            self._faults[key] = faults
        return bool(faults) or is_over

    def _fitting(self, key: str, job: Job) -> Mapping[str, dict[str, Any]]:
        """The job's templates; none where it was deleted or written anew since: the next step sees that."""
        templates = self._templates(key)
        return templates if all(role.type in templates for role in job.roles) else {}

    async def _start(
        self, job: Job, start: Start, templates: Mapping[str, dict[str, Any]], extras: pod_builder.Extras
    ) -> Fault | None:
        role = job.role(start.role)
        assert role is not None, f"{start.replica} has a role that its job does not declare"
        body = pod_builder.pod(job, role, templates[role.type], start, extras)
        service = pod_builder.service(job, role, start.index)
        pods, name = path("v1", "pods", job.namespace), start.replica
        try:
            # In this order a pod that is there has its service, whenever we are stopped in between.
            if service is not None:
                await self._owned.make_service(job, service)
            if kinds.of(job).remote_start(job) and name == mpi_pods.launcher_name(job):
                rival = self.index.kubeflow_launcher(job.namespace, job.name)
                await self._owned.require_sole_launcher(job, rival)
            try:
                pod = await self._api.create(pods, body, Pod)
                self.counting.created += 1
            except ApiError as refused:
                if not refused.name_is_taken:
                    raise
                # It was made already, by an earlier self whose answer was lost, or it belongs to another.
                pod = await self._api.get(path("v1", "pods", job.namespace, name), Pod)
                if owner(pod) != job.uid:
                    raise foreign("Pod", name) from refused
                if JOB_NAME not in pod.metadata.labels:
                    raise unwatched(name, job.namespace) from refused
        except ApiError as error:
            # A name that is taken is the replica's own matter; a quota, or a busy server, concerns all.
            return replace(_fault(name, error), alone=error.status == 409)
        self._pods.learn(pod)
        return None

    async def _support(self, key: str, job: Job, replica: str) -> bool:
        """Make what the pods need; where that is refused, the replica cannot start."""
        remote = kinds.of(job).remote_start(job)
        launcher = job.role(remote.launcher) if remote else None
        account = mpi_pods.named_account(self._templates(key).get(launcher.type, {})) if launcher else ""
        objects: list[dict[str, Any]] = []
        if not self.index.has_kubeflow_launcher(job.uid):
            files, chance = self._files.get(key, ()), self._api.access.chance
            objects = mpi_objects.supports(job, files, chance, self._workers(job), account)
        refused = await self._owned.keep(job, objects, account if mpi_objects.grants(job) else "")
        if refused is None:
            self._lacks.pop(key, None)
            return True
        self._lacks[key] = _fault(replica, refused)
        return False

    def _workers(self, job: Job) -> frozenset[str]:
        """The pods of the job's own in which commands may be started: none that is about to go."""
        remote = kinds.of(job).remote_start(job)
        return frozenset(
            pod.metadata.name
            for pod in self.index.of_job(job.uid)
            if remote is not None
            and pod_status.role_of(pod) == remote.workers
            and pod.metadata.deletionTimestamp is None
        )

    def _aliases(self, job: Job, attempt: int) -> dict[str, str]:
        """The address of the replica that the others look up.

        A gang comes and goes as a whole, so the address holds for as long as the replica that is told of it;
        DNS would still give the last attempt's for seconds.
        """
        meeting = kinds.of(job).rendezvous_replica(job)
        if job.unit is not RestartScope.GANG or not meeting:
            return {}
        for pod in self.index.of_job(job.uid):
            replica = self._replica(pod)
            if replica.name == meeting and replica.attempt == attempt and replica.address:
                return {meeting: replica.address}
        return {}

    # Removing.

    async def _remove(self, job: Job, action: Stop | Abandon) -> None:
        pod = self.index.find(job.uid, action.uid)
        if pod is None:
            return
        grace: int | None = 0
        if isinstance(action, Stop):
            grace = None if action.grace is None else max(SHORTEST_GRACE, round(action.grace))
        where = path("v1", "pods", job.namespace, action.replica)
        try:
            left = await self._api.delete(where, Pod, uid=action.uid, grace=grace)
        except ApiError as error:
            if error.status != 409:
                raise
            left = None  # Another pod has that name by now.
        self.counting.deleted += not pod_status.is_leftover(pod)  # Such a pod was counted before.
        # A pod lives on until its kubelet says that it ended, and for as long as a finalizer holds it.
        if left is not None and (left.metadata.deletionGracePeriodSeconds or left.metadata.finalizers):
            self._pods.learn(left)
        else:
            self._pods.forget(pod)
        if isinstance(action, Stop) and action.for_good and pod_builder.has_own_services(job):
            await self._owned.drop_service(job, action.replica)


def _first_name(job: Job) -> str:
    """The replica that is named where a refusal concerns them all."""
    return next(replica.name for replica in replica_ids(job))


def _fault(replica: str, error: ApiError) -> Fault:
    """What a refused request means: a pod that the API calls invalid will not become valid."""
    return Fault(replica, f"Error creating: {error.message}", final=error.status in (400, 422))
