"""Finds pods by the job that owns them and by the node they are on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import ATTEMPT
from bireme.backends.kubernetes.observe import pod_status
from bireme.kinds.kubeflow_labels import JOB_NAME, JOB_ROLE, LAUNCHER

_NONE: Mapping[str, Pod] = {}


class PodIndex:
    """Kept current by the watch of pods."""

    def __init__(self) -> None:
        self._of_job: dict[str, dict[str, Pod]] = {}
        self._on_node: dict[str, dict[str, Pod]] = {}
        self._launchers: dict[str, dict[str, Pod]] = {}

    def changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None:
            self._drop(self._of_job, owner(before), before)
            self._drop(self._on_node, before.spec.nodeName, before)
            self._drop(self._launchers, _launched(before), before)
        if after is not None:
            self._keep(self._of_job, owner(after), after)
            self._keep(self._on_node, after.spec.nodeName, after)
            self._keep(self._launchers, _launched(after), after)

    def of_job(self, uid: str) -> Iterable[Pod]:
        return self._of_job.get(uid, _NONE).values()

    def count(self, job_uid: str) -> int:
        return len(self._of_job.get(job_uid, _NONE))

    def find(self, job_uid: str, pod_uid: str) -> Pod | None:
        return self._of_job.get(job_uid, _NONE).get(pod_uid)

    def on_node(self, name: str) -> Iterable[Pod]:
        return self._on_node.get(name, _NONE).values()

    def kubeflow_launcher(self, namespace: str, job: str) -> Pod | None:
        """The launcher that Kubeflow's MPI operator started for a job of this name, whatever became of it."""
        return next(iter(self._launchers.get(f"{namespace}/{job}", _NONE).values()), None)

    def has_kubeflow_launcher(self, job_uid: str) -> bool:
        """Whether a launcher lives that the Training Operator made as a pod of the job's own.

        It uses files and rights that are named as ours.
        """
        return any(
            pod_status.role_of(pod) == LAUNCHER
            and ATTEMPT not in pod.metadata.labels
            and pod.status.phase not in pod_status.ENDED
            for pod in self.of_job(job_uid)
        )

    def _keep(self, index: dict[str, dict[str, Pod]], key: str, pod: Pod) -> None:
        if key:
            index.setdefault(key, {})[pod.metadata.uid] = pod

    def _drop(self, index: dict[str, dict[str, Pod]], key: str, pod: Pod) -> None:
        pods = index.get(key)
        if pods is not None:
            pods.pop(pod.metadata.uid, None)
            if not pods:
                del index[key]


def _launched(pod: Pod) -> str:
    """The job whose launcher the pod is through a batch Job; none of ours is."""
    meta = pod.metadata
    if meta.labels.get(JOB_ROLE) != LAUNCHER or meta.controller is None or meta.controller.kind != "Job":
        return ""
    return f"{meta.namespace}/{meta.labels.get(JOB_NAME, '')}"


def owner(pod: Pod) -> str:
    """The uid of the job that the pod belongs to, or an empty text."""
    controller = pod.metadata.controller
    return controller.uid if controller is not None else ""
