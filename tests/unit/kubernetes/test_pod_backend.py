"""What the operator makes of an API server's answers when it starts pods and keeps what they need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.informer import Scoped
from bireme.backends.kubernetes.gang_admission import Gangs
from bireme.backends.kubernetes.objects import mpi_objects
from bireme.backends.kubernetes.objects.api_types import Meta, OwnerReference, Pod, PodGroup, PodStatus
from bireme.backends.kubernetes.owned_objects import Object, OwnedObjects, make
from bireme.backends.kubernetes.pod_backend import ClusterBackend, Settings
from bireme.kinds.kubeflow_labels import JOB_NAME, MPI_ROLE_TYPE
from bireme.model.decisions import SharedFile
from bireme.model.job import Job
from bireme.model.replicas import Fault, Observation
from bireme.model.status import Status
from bireme.model.stored import Stored
from tests.unit.kubernetes.apiserver import ApiServer, asked
from tests.unit.kubernetes.making import V2BETA1, Made, mpi, template

QUOTA = (409, "Conflict", 'Operation cannot be fulfilled on resourcequotas "team": changed')
PODS = "/api/v1/namespaces/ml/pods"
CONFIG = "/api/v1/namespaces/ml/configmaps/mnist-config"
ROLE = "/apis/rbac.authorization.k8s.io/v1/namespaces/ml/roles/mnist-launcher"
BATCH = "/apis/batch/v1/namespaces/ml/jobs/mnist-launcher"
KEY = "mpijobs/ml/mnist"
FILES = (SharedFile("/etc/mpi/hostfile", "mnist-worker-0 slots=1"),)


class Operated:
    """A job whose backend has an API server behind it; its pods are those that a test names."""

    def __init__(self, server: ApiServer, made: Made) -> None:
        self.server, self.made = server, made
        self.pods: list[Pod] = []

    def do(self, story: Callable[[ClusterBackend], Awaitable[Any]]) -> Observation:
        """What is seen of the job after the story."""

        async def ask(api: Api) -> Observation:
            def changed(before: Pod | None, after: Pod | None) -> None:
                backend.index.changed(before, after)

            pods = Scoped(api, ("v1", "pods"), Pod, changed)
            templates = self.made.templates
            backend = ClusterBackend(api, pods, None, lambda _: templates, lambda: 0.0, Settings())
            stored = Stored(self.made.job, Status())
            for pod in self.pods:
                backend.index.changed(None, pod)
            await backend.see(KEY, stored)
            await story(backend)
            return await backend.see(KEY, stored)

        return asked(self.server, ask)

    def start(self, *roles: str, times: int = 1) -> dict[str, Fault]:
        async def story(backend: ClusterBackend) -> None:
            for _ in range(times):
                await backend.act(KEY, self.made.job, tuple(self.made.start(one) for one in roles))

        return {one.replica: one for one in self.do(story).faults}


def test_a_quota_that_was_written_by_two_at_once_is_not_taken_for_a_pod_that_exists() -> None:
    server = ApiServer()
    server.refusals["POST", "/pods"] = QUOTA

    faults = Operated(server, mpi()).start("worker")

    (fault,) = faults.values()
    assert "resourcequotas" in fault.text
    assert fault.alone


def test_nor_for_an_object_or_a_group_that_exists() -> None:
    server, made = ApiServer(), mpi()
    server.refusals["POST", "/configmaps"] = QUOTA
    server.refusals["POST", "/podgroups"] = QUOTA
    config = mpi_objects.supports(made.job, (), Random(1))[-1]

    async def group(api: Api) -> None:
        groups = Scoped(api, ("v1", "podgroups"), PodGroup, lambda *_: None)
        server.objects["/apis/scheduling.k8s.io/v1/priorityclasses"] = {"items": []}
        await Gangs(api, "volcano", groups).form(made.job, made.templates)

    with pytest.raises(ApiError, match="resourcequotas"):
        asked(server, lambda api: make(api, made.job, config))
    with pytest.raises(ApiError, match="resourcequotas"):
        asked(server, group)


# What Kubeflow's operators left.


def test_no_second_launcher_starts_while_the_job_of_kubeflow_s_waits_to_make_another_pod() -> None:
    server = ApiServer()
    server.put(BATCH, owner="job-uid")

    faults = Operated(server, mpi(V2BETA1)).start("launcher")

    assert f"{PODS}/mnist-launcher" not in server.objects
    assert "kubectl delete job mnist-launcher --namespace ml" in faults["mnist-launcher"].text


@pytest.mark.parametrize("owner", ["", "another"])
def test_a_batch_job_that_is_not_of_this_job_is_no_launcher_of_it(owner: str) -> None:
    server = ApiServer()
    server.put(BATCH, owner=owner)

    assert not Operated(server, mpi(V2BETA1)).start("launcher")


@pytest.mark.parametrize("refusal", [None, (403, "Forbidden", "no")])
def test_a_job_pays_one_look_at_most_for_that(refusal: tuple[int, str, str] | None) -> None:
    server = ApiServer()
    if refusal is not None:
        server.refusals["GET", "/jobs/mnist-launcher"] = refusal

    faults = Operated(server, mpi(V2BETA1)).start("worker", "launcher", times=3)

    assert not faults
    assert server.asked.count("GET jobs/mnist-launcher") == 1


def test_while_a_launcher_of_kubeflow_s_lives_its_script_and_its_rights_stay() -> None:
    server, made = ApiServer(), mpi()
    server.put(CONFIG, owner="job-uid", data={"kubexec.sh": "theirs"})
    server.put(ROLE, owner="job-uid", rules=[{"verbs": ["get", "list", "watch"]}])
    operated = Operated(server, made)
    operated.pods = [_left_by_kubeflow("Running")]

    operated.do(lambda backend: backend.publish(KEY, FILES))
    operated.start("worker")

    assert server.objects[CONFIG]["data"] == {"kubexec.sh": "theirs"}
    assert server.objects[ROLE]["rules"] == [{"verbs": ["get", "list", "watch"]}]
    assert f"{PODS}/mnist-worker-0" in server.objects


def test_once_it_has_ended_both_are_ours() -> None:
    server, made = ApiServer(), mpi()
    server.put(CONFIG, owner="job-uid", data={"kubexec.sh": "theirs"})
    server.put(ROLE, owner="job-uid", rules=[{"verbs": ["get", "list", "watch"]}])
    operated = Operated(server, made)
    operated.pods = [_left_by_kubeflow("Failed")]

    operated.do(lambda backend: backend.publish(KEY, FILES))

    assert "kubexec.py" in server.objects[CONFIG]["data"]
    assert server.objects[ROLE]["rules"] == []


# The rights of a launcher.


def test_rights_that_are_gone_already_are_not_taken_back_again() -> None:
    server, made = ApiServer(), mpi()
    nothing = mpi_objects.launcher_role(made.job, ())
    server.put(ROLE, owner="job-uid", rules=None)

    asked(server, lambda api: _take_back(OwnedObjects(api), made.job, nothing))

    assert server.asked == ["GET roles/mnist-launcher"]


def test_rights_that_an_operator_before_us_left_are_taken_back() -> None:
    server, made = ApiServer(), mpi()
    server.put(ROLE, owner="job-uid", rules=mpi_objects.launcher_role(made.job, ["mnist-worker-0"])["rules"])
    nothing = mpi_objects.launcher_role(made.job, ())

    asked(server, lambda api: _take_back(OwnedObjects(api), made.job, nothing))

    assert server.objects[ROLE]["rules"] == []


async def _take_back(owned: OwnedObjects, job: Job, role: Object) -> None:
    """As an operator does that did not make the Role: it looks, and acts if there is a reason to."""
    if await owned.grants_too_much(job, role, thoroughly=True):
        await owned.withdraw(job, role)


def test_a_service_account_that_is_missing_is_said_with_how_to_create_it() -> None:
    launcher = template(serviceAccountName="trainer")

    faults = Operated(ApiServer(), mpi(launcher=launcher)).start("worker")

    (fault,) = faults.values()
    assert fault.text == (
        "Error creating: the launcher's template names the ServiceAccount trainer, which does not exist; "
        "create it: kubectl create serviceaccount trainer --namespace ml"
    )


def _left_by_kubeflow(phase: str) -> Pod:
    """A launcher as the Training Operator makes it: a pod of the job's own, without our labels."""
    owner = OwnerReference("kubeflow.org/v1", "MPIJob", "mnist", "job-uid", controller=True)
    marks = {JOB_NAME: "mnist", MPI_ROLE_TYPE: "launcher"}
    meta = Meta("mnist-launcher", "ml", "pod-uid", "1", labels=marks, ownerReferences=(owner,))
    return Pod(metadata=meta, status=PodStatus(phase=phase))
