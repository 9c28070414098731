"""Keeps what a job has beside its pods: services, MPI's files, keys and rights, an autoscaler.

All of it belongs to the job and goes with it. What was made is remembered only to save requests: an operator
that starts anew makes everything again, and finds that it is there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bireme import kinds
from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects import job_objects, mpi_pods
from bireme.backends.kubernetes.objects.api_types import Meta, Named, Pod
from bireme.kinds.kubeflow_labels import JOB_NAME
from bireme.model.job import Job

Object = dict[str, Any]

AUTOSCALING = "autoscaling/v2"
_PLURALS = {
    "ConfigMap": "configmaps",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Secret": "secrets",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
_MADE_ONCE = ("Secret", "Service", "ServiceAccount", "RoleBinding")
"""Kinds of objects that are left as they were made."""


class _Role(msgspec.Struct, frozen=True):
    metadata: Meta = Meta()
    rules: list[Any] | None = None  # Any: they are only compared


class OwnedObjects:
    def __init__(self, api: Api) -> None:
        self._api = api
        self._services: dict[str, dict[str, str]] = {}
        """The uid of each service, by its job's uid and by name."""
        self._kept: dict[str, dict[str, tuple[Object, str]]] = {}
        """What was made of each job last, and its uid, by kind."""
        self._scalers: dict[str, tuple[bytes, str]] = {}
        """What each autoscaler says, and its uid."""
        self._unscaled: set[str] = set()
        """Jobs whose autoscaler is known to be gone; an operator before us may have left one of any other."""
        self._sole: set[str] = set()
        """Jobs of which it is known that no other controller starts a launcher."""

    def forget(self, uid: str) -> None:
        self._services.pop(uid, None)
        self._kept.pop(uid, None)
        self._scalers.pop(uid, None)
        self._unscaled.discard(uid)
        self._sole.discard(uid)

    async def require_sole_launcher(self, job: Job, rival: Pod | None) -> None:
        """Raises where Kubeflow's MPI operator has started a launcher, or left a batch Job that will.

        Such a Job makes another pod after the one that failed or was deleted, so pods alone do not tell.
        """
        if rival is not None:
            raise _second_launcher(f"the pod {rival.metadata.name}", job)
        if job.uid in self._sole:
            return
        name = mpi_pods.launcher_name(job)
        try:
            if await self._own(job, path("batch/v1", "jobs", job.namespace, name)):
                raise _second_launcher(f"the Job {name}", job)
        except ApiError as error:
            if error.status != 403:  # Rights that were installed by an older Bireme do not cover it.
                raise
        self._sole.add(job.uid)

    async def make_service(self, job: Job, service: Object) -> None:
        # Asked for with every pod, not remembered: another operator may have removed it with the last one.
        uid = await make(self._api, job, service)
        self._services.setdefault(job.uid, {})[service["metadata"]["name"]] = uid

    async def drop_service(self, job: Job, name: str) -> None:
        known = self._services.get(job.uid, {})
        await self._drop(job, path("v1", "services", job.namespace, name), known.get(name, ""))
        known.pop(name, None)

    async def keep(self, job: Job, objects: list[Object], account: str = "") -> ApiError | None:
        """Make what is missing and change what differs; returns the first refusal.

        The ServiceAccount `account`, which a template names, is not ours to make: it has to be there.
        """
        try:
            if account and objects:
                await self._require(job, account)
            kept = self._kept.setdefault(job.uid, {}) if objects else {}
            for item in objects:
                known = kept.get(item["kind"])
                # Keys are random, and stay as they were made.
                is_same = known is not None and known[1] and (known[0] == item or item["kind"] == "Secret")
                if not is_same:
                    kept[item["kind"]] = item, await make(self._api, job, item)
            await self.keep_autoscaler(job)
        except ApiError as error:
            return error
        return None

    async def keep_autoscaler(self, job: Job) -> None:
        """Scale the job as its elastic policy says now; raises ApiError where that is refused."""
        scaler = autoscaler(job)
        if scaler is None:
            if job.uid in self._scalers:
                await self.drop_autoscaler(job)
        elif self.autoscaler_differs(job):
            self._scalers[job.uid] = msgspec.json.encode(scaler), await make(self._api, job, scaler)
            self._unscaled.discard(job.uid)

    def autoscaler_differs(self, job: Job) -> bool:
        """Whether the job's autoscaler is missing, is one too many, or says something else than the job."""
        scaler = autoscaler(job)
        made, _ = self._scalers.get(job.uid, (b"", ""))
        return made != (msgspec.json.encode(scaler) if scaler is not None else b"")

    def has_autoscaler(self, job: Job) -> bool:
        return job.uid in self._scalers or (job.uid not in self._unscaled and scales(job))

    async def drop_autoscaler(self, job: Job) -> None:
        if self.has_autoscaler(job):
            where = path(AUTOSCALING, "horizontalpodautoscalers", job.namespace, job.name)
            await self._drop(job, where, self._scalers.get(job.uid, (b"", ""))[1])
            self._scalers.pop(job.uid, None)
            self._unscaled.add(job.uid)

    async def _drop(self, job: Job, where: str, uid: str) -> None:
        """Delete an object of the job; one that an operator before us made is looked at first."""
        found = uid or await self._own(job, where)
        if found:
            await self._api.delete(where, Named, uid=found)

    async def _own(self, job: Job, where: str) -> str:
        """The uid of an object of the job; empty where there is none, or it is not the job's."""
        try:
            found = await self._api.get(where, Named)
        except ApiError as error:
            if error.status != 404:
                raise
            return ""
        return found.metadata.uid if _is_of(found, job) else ""

    async def _require(self, job: Job, account: str) -> None:
        kept = self._kept.setdefault(job.uid, {})
        if "ServiceAccount" in kept:
            return
        try:
            found = await self._api.get(path("v1", "serviceaccounts", job.namespace, account), Named)
        except ApiError as error:
            if error.status != 404:
                raise
            what = f"the launcher's template names the ServiceAccount {account}, which does not exist"
            hint = f"kubectl create serviceaccount {account} --namespace {job.namespace}"
            raise ApiError(404, "NotFound", f"{what}; create it: {hint}", source=error.source) from error
        kept["ServiceAccount"] = {}, found.metadata.uid

    async def grants_too_much(self, job: Job, role: Object, *, thoroughly: bool) -> bool:
        """Whether a launcher's Role names pods that `role` does not; it may well name fewer.

        Thoroughly means that a Role is looked at that an operator before us may have left, once.
        """
        kept = self._kept.setdefault(job.uid, {})
        known = kept.get(role["kind"])
        if known is not None:
            return not _names(known[0]) <= _names(role)
        if not thoroughly:
            return False
        uid, is_right = await self._own_role(job, _where(role, role["metadata"]["name"]), role)
        if uid and not is_right:
            return True
        kept[role["kind"]] = role, uid
        return False

    async def withdraw(self, job: Job, role: Object) -> None:
        """Let a launcher's Role say what it should: rights that it grants beyond that are taken back."""
        kept = self._kept.setdefault(job.uid, {})
        known = kept.get(role["kind"])
        where = _where(role, role["metadata"]["name"])
        uid, is_right = (known[1], False) if known is not None else await self._own_role(job, where, role)
        if uid and not is_right:
            try:
                await self._api.patch(where, role, Named, meant=Expected(uid))
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
                uid = ""  # It is gone, and with it what it granted.
        kept[role["kind"]] = role, uid

    async def _own_role(self, job: Job, where: str, wanted: Object) -> tuple[str, bool]:
        """The uid of the job's Role, and whether it says what it should."""
        try:
            found = await self._api.get(where, _Role)
        except ApiError as error:
            if error.status != 404:
                raise
            return "", False
        return (found.metadata.uid if _is_of(found, job) else ""), (found.rules or []) == wanted["rules"]


def scales(job: Job) -> bool:
    """Whether the cluster may scale the job by itself."""
    return kinds.of(job).autoscaling(job) is not None


def autoscaler(job: Job) -> Object | None:
    """The autoscaler of a job; one that is suspended has none, or it would be scaled up from nothing."""
    scaling = kinds.of(job).autoscaling(job)
    if scaling is None or job.policy.suspend:
        return None
    return {
        "apiVersion": AUTOSCALING,
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "ownerReferences": [job_objects.owner(job)],
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": job.api_version, "kind": job.kind, "name": job.name},
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "metrics": list(scaling.metrics),
        },
    }


async def make(api: Api, job: Job, wanted: Object) -> str:
    """Make an object of the job, or change the one that is there; returns its uid.

    An object that is not the job's is left alone, and refused.
    """
    try:
        return (await api.create(_where(wanted), wanted, Named)).metadata.uid
    except ApiError as error:
        if not error.name_is_taken:
            raise
    name = wanted["metadata"]["name"]
    found = await api.get(_where(wanted, name), Named)
    if not _is_of(found, job):
        raise foreign(wanted["kind"], name)
    uid = found.metadata.uid
    if wanted["kind"] not in _MADE_ONCE:
        await api.patch(_where(wanted, name), wanted, Named, meant=Expected(uid))
    return uid


def foreign(kind: str, name: str) -> ApiError:
    what = f'a {kind} named "{name}" exists and is not of this job'
    text = f"{what}: delete it, or give the job another name"
    return ApiError(409, "AlreadyExists", text, {})


def _second_launcher(what: str, job: Job) -> ApiError:
    """Two launchers of one job would start its ranks twice."""
    text = f"{what}, which Kubeflow's MPI operator made, is this job's launcher already"
    hint = f"kubectl delete job {mpi_pods.launcher_name(job)} --namespace {job.namespace}"
    return ApiError(409, "AlreadyExists", f"{text}; to start the job anew: {hint}", {})


def unwatched(name: str, namespace: str) -> ApiError:
    """A pod of the job whose changes no watch would tell us."""
    what = f"the pod {name} is of this job, but its label {JOB_NAME} was taken away"
    hint = f"kubectl delete pod {name} --namespace {namespace}"
    return ApiError(409, "AlreadyExists", f"{what}, so it cannot be followed: {hint}", {})


def _names(role: Object) -> set[str]:
    return {name for rule in role["rules"] for name in rule["resourceNames"]}


def _is_of(found: Named | _Role, job: Job) -> bool:
    owner = found.metadata.controller
    return owner is not None and owner.uid == job.uid


def _where(item: Object, name: str = "") -> str:
    return path(item["apiVersion"], _PLURALS[item["kind"]], item["metadata"]["namespace"], name)
