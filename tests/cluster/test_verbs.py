"""The verbs on jobs of a cluster, over a real API server; pods are played by hand."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme import errors
from bireme.model.status import Phase
from bireme.sdk.client import Client
from tests.cli import scripts
from tests.cli.commands import Cli
from tests.cli.conftest import cli as cli
from tests.cluster import operator_fixtures
from tests.cluster.control_plane import Plane
from tests.cluster.harness import ControlPlane, Json
from tests.cluster.operator_fixtures import CRDS, Jobs, manifest, until
from tests.cluster.verbs import Verbs, verbs


class Played(Jobs):
    """The pods of a namespace that exists already."""

    def __init__(self, one: Verbs) -> None:
        self.plane, self.namespace = Plane(one.kubectl.kubeconfig), one.namespace


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    for file in CRDS:
        control_plane.kubectl("apply", "-f", str(file))
    return control_plane


@pytest.fixture
def bireme(plane: ControlPlane, cli: Cli, tmp_path: Path) -> Iterator[Verbs]:
    with verbs(plane, cli, tmp_path) as one:
        yield one


@pytest.fixture
def pods(bireme: Verbs, tmp_path: Path) -> Iterator[Played]:
    """The pods of the test's namespace, for which an operator cares."""
    options = ("--no-leader-elect", "--namespace", bireme.namespace)
    with operator_fixtures.operator(bireme.kubectl.kubeconfig, tmp_path / "operator.log", *options):
        yield Played(bireme)


def pytorch(workers: int = 1, restart: str = "Never", **policy: Json) -> Json:
    role = {"restartPolicy": restart}
    worker = {**role, "replicas": workers}
    return manifest("PyTorchJob", "pytorchReplicaSpecs", policy=policy, Master=role, Worker=worker)


def test_a_job_is_started_listed_shown_and_waited_for(bireme: Verbs, pods: Played) -> None:
    started = bireme.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")
    until(lambda: "mnist-master-0" in pods.pods())
    pods.run("mnist-master-0")
    pods.pods_are("mnist-master-0", "mnist-worker-0")
    pods.run("mnist-worker-0")

    assert started.out == "mnist\n"
    until(lambda: bireme.json("show", "mnist")["ready"] == 2)
    (row,) = bireme.json("ps")["jobs"]
    assert (row["phase"], row["backend"], row["namespace"]) == ("Running", "kubernetes", bireme.namespace)
    assert "WHERE" in bireme("ps").out
    assert "exec mnist-master-0 -- py-spy" in bireme("stacks", "mnist").err
    assert "exec mnist-worker-0 -- py-spy" in bireme("stacks", "mnist", "--rank", "1").err
    assert "mnist has no rank 2" in bireme("stacks", "mnist", "--rank", "2").err

    pods.end("mnist-master-0", 0)
    waited = bireme("wait", "mnist", "--timeout", "30s")
    assert (waited.status, "mnist: Succeeded in" in waited.err) == (0, True)
    (ended,) = bireme.json("ps")["jobs"]
    assert (ended["id"], ended["phase"]) == ("mnist", "Succeeded")
    assert len(bireme.json("ps", "--all")["jobs"]) == 1


def test_a_job_that_failed_tells_its_first_error(bireme: Verbs, pods: Played) -> None:
    bireme.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")
    until(lambda: "mnist-master-0" in pods.pods())
    pods.run("mnist-master-0")
    pods.pods_are("mnist-master-0", "mnist-worker-0")

    pods.end("mnist-worker-0", 3)

    waited = bireme("wait", "mnist", "--timeout", "30s")
    assert waited.status == 1
    assert "mnist failed: rank 1 (worker-0) ended with exit code 3" in waited.err
    assert "bireme logs mnist worker-0" in waited.err
    assert bireme("logs", "mnist").status == 0
    error = bireme.json("show", "mnist")["diagnosis"]["error"]
    assert (error["rank"], error["exit_code"], error["short"]) == (1, 3, "worker-0")
    assert "PyTorchJobFailed" in bireme("show", "mnist").out


def test_a_job_is_put_aside_resumed_and_scaled(bireme: Verbs, pods: Played) -> None:
    bireme.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")
    until(lambda: "mnist-master-0" in pods.pods())

    assert "stopped mnist" in bireme.done("stop", "mnist").err
    assert pods.pods() == []
    assert bireme.json("show", "mnist")["phase"] == "Suspended"

    assert "mnist resumes" in bireme.done("resume", "mnist").err
    until(lambda: "mnist-master-0" in pods.pods())
    pods.run("mnist-master-0")
    assert "mnist: worker from 1 to 3" in bireme.done("scale", "mnist", "worker=3").err
    pods.pods_are("mnist-master-0", "mnist-worker-0", "mnist-worker-1", "mnist-worker-2")
    refused = bireme("scale", "mnist", "ps=1")
    assert (refused.status, "mnist has no role ps" in refused.err) == (2, True)


def test_a_gang_stops_trying_is_resumed_and_counts_its_ranks(bireme: Verbs, pods: Played) -> None:
    job = pytorch(backoffLimit=9)
    job["metadata"]["annotations"] = {"bireme.io/restart": "gang", "bireme.io/environment": "torchrun"}
    place = {"name": "BIREME_CHECKPOINTS", "value": "s3://bucket/mnist"}
    for role in job["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["env"] = [place]
    bireme.done("run", "-f", bireme.manifest(job), "--on", "kubernetes", "--detach")
    for attempt in (0, 1):
        until(lambda: bireme.json("show", "mnist")["attempt"] == attempt)  # noqa: B023
        pods.run_in_order("mnist-master-0", "mnist-worker-0")
        error = f"time={time.time() + attempt} saved=40 place=/code/train.py:3"
        pods.end("mnist-worker-0", 1, message=f"bireme-report asked=1 {error}\nValueError: no labels\n")

    waited = bireme("wait", "mnist", "--timeout", "60s")
    shown = bireme.json("show", "mnist")
    assert (waited.status, shown["crashes"]) == (1, 2)
    assert shown["why"] == "rank 1: ValueError: no labels (2 attempts)"
    assert "newest checkpoint is of step 40 in s3://bucket/mnist" in waited.err
    assert "Continue from it: bireme resume mnist" in waited.err

    assert "mnist resumes from step 40" in bireme.done("resume", "mnist").err
    pods.run_in_order("mnist-master-0", "mnist-worker-0")
    until(lambda: bireme.json("show", "mnist")["phase"] == "Running")
    assert "mnist: from 2 to 1 ranks" in bireme.done("scale", "mnist", "1").err
    until(lambda: bireme.json("show", "mnist")["attempt"] == 3)
    pods.pods_are("mnist-master-0")
    assert "mnist: from 1 to 3 ranks" in bireme.done("scale", "mnist", "3").err
    pods.run_in_order("mnist-master-0", "mnist-worker-0", "mnist-worker-1")
    until(lambda: bireme.json("show", "mnist")["phase"] == "Running")
    for pod in ("mnist-worker-0", "mnist-worker-1", "mnist-master-0"):
        pods.end(pod, 0)
    assert bireme("wait", "mnist", "--timeout", "60s").status == 0
    assert "-Failed" in pods.conditions("pytorchjob/mnist")


def test_a_job_that_is_removed_leaves_nothing(bireme: Verbs, pods: Played) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.done("run", "train.py", "--on", "kubernetes", "--image", "python:3", "--name", "one", "--detach")
    until(lambda: "one-master-0" in pods.pods())
    (code,) = _code(bireme)
    assert code["metadata"]["ownerReferences"][0]["kind"] == "PyTorchJob"

    refused = bireme("rm", "one")
    removed = bireme.done("rm", "--yes", "one")

    assert (refused.status, "bireme rm --yes one" in refused.err) == (2, True)
    assert removed.err == "removed one\n"
    until(lambda: not pods.pods() and not _code(bireme), "pods and code to be gone")
    assert bireme("show", "one").status == 2


def _code(bireme: Verbs) -> list[Json]:
    found: list[Json] = bireme.kubectl.object("configmaps", "-l", "bireme.io/code")["items"]
    return found


def test_code_that_two_jobs_share_goes_with_the_last(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    for name in ("one", "two"):
        bireme.done(
            "run", "train.py", "--on", "kubernetes", "--image", "python:3", "--name", name, "--detach"
        )
    assert len(_code(bireme)) == 1

    bireme.done("rm", "--yes", "one")
    assert len(_code(bireme)) == 1
    bireme.done("rm", "--yes", "two")

    until(lambda: not _code(bireme), "the code to be gone")


def test_nothing_is_left_of_a_script_that_was_refused(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    words = ("run", "train.py", "--on", "kubernetes", "--image", "python:3", "--name", "one", "--detach")

    bireme.done(*words)
    bireme.cli.write("train.py", "print('another')")
    again = bireme(*words)

    assert (again.status, "PyTorchJob one is in" in again.err) == (2, True)
    assert len(_code(bireme)) == 1


def test_a_script_wants_an_image(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")

    refused = bireme("run", "train.py", "--on", "kubernetes")
    configured = bireme("run", "train.py", "--detach", BIREME_ON="kubernetes", BIREME_IMAGE="mine:1")

    assert (refused.status, "add --image " in refused.err) == (2, True)
    assert configured.status == 0, configured.err
    (job,) = bireme.kubectl.object("pytorchjobs")["items"]
    (container,) = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"]
    assert container["image"] == "mine:1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--map", "/opt/app=."), "--map supplies paths of an image"),
        (("--volume", "data=."), "--volume supplies a claim"),
        (("--python", "python3"), "--python chooses an interpreter"),
        (("--fit",), "--fit shrinks a job"),
        (("--command", "python x.py"), "--command stands for an image's entrypoint"),
    ],
)
def test_what_only_this_machine_needs_is_refused(bireme: Verbs, words: tuple[str, ...], said: str) -> None:
    done = bireme("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", *words)

    assert (done.status, said in done.err) == (2, True)


def test_variables_and_images_go_into_a_manifest(bireme: Verbs) -> None:
    bireme.done(
        *("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach"),
        *("--env", "LR=0.1", "--image", "mine:2"),
    )

    spec = bireme.kubectl.object("pytorchjob/mnist")["spec"]["pytorchReplicaSpecs"]
    containers = [spec[role]["template"]["spec"]["containers"][0] for role in ("Master", "Worker")]
    assert [one["image"] for one in containers] == ["mine:2", "mine:2"]
    assert [one["env"] for one in containers] == [[{"name": "LR", "value": "0.1"}]] * 2


def test_what_stands_beside_a_job_is_applied_too(bireme: Verbs) -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }

    done = bireme.done(
        "run", "-f", bireme.manifest(pytorch(), settings, claim), "--on", "kubernetes", "--detach"
    )

    assert "applied ConfigMap settings, PersistentVolumeClaim data" in done.err
    assert "left alone" not in done.err
    assert bireme.kubectl.object("configmap/settings")["data"] == {"a": "1"}
    bireme.kubectl.object("pvc/data")


def test_check_asks_the_api_server_and_changes_nothing(bireme: Verbs) -> None:
    wrong = pytorch()
    wrong["metadata"]["labels"] = {"team": "not a label!"}

    fine = bireme("check", "-f", bireme.manifest(pytorch()), "--on", "kubernetes")
    refused = bireme("check", "-f", bireme.manifest(wrong), "--on", "kubernetes")
    nowhere = bireme(
        "check", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--namespace", "absent-here"
    )

    assert (fine.status, "is valid" in fine.out) == (0, True)
    assert (refused.status, "the API server rejects it" in refused.err) == (2, True)
    assert (nowhere.status, "to run it in the cluster, more is needed" in nowhere.out) == (0, True)
    assert bireme.kubectl.object("pytorchjobs")["items"] == []


def test_a_name_is_looked_for_where_it_was_started(bireme: Verbs) -> None:
    bireme.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")

    elsewhere = bireme.changed()  # another kubeconfig, whose default namespace does not matter
    assert elsewhere.json("show", "mnist")["namespace"] == bireme.namespace
    assert elsewhere.json("show", "pytorchjob/mnist")["name"] == "mnist"
    assert elsewhere("show", "tfjob/mnist").status == 2


def test_a_name_in_both_places_is_asked_about(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")
    bireme.done("run", "train.py", "--name", "mnist")

    asked = bireme("logs", "mnist")

    assert asked.status == 2
    assert "say which one: --on local, or --on kubernetes" in asked.err
    assert bireme.done("logs", "mnist", "--on", "local").out == "hello\n"
    assert bireme.json("show", "mnist", "--on", "kubernetes")["backend"] == "kubernetes"
    assert {one["id"] for one in bireme.json("ps", "--all")["jobs"]} == {"mnist", "pytorchjob/mnist"}


def test_without_a_name_nobody_elses_job_is_stopped_or_resumed(
    bireme: Verbs, pods: Played, tmp_path: Path
) -> None:
    on = ("--on", "kubernetes")
    colleague = str(tmp_path / "colleague")
    file = bireme.manifest(pytorch())
    bireme.done("run", "-f", file, "--name", "theirs", *on, "--detach", BIREME_HOME=colleague)

    stopped = bireme("stop", *on)
    assert (stopped.status, stopped.out) == (2, "")
    assert "bireme stop pytorchjob/theirs --on kubernetes" in stopped.err

    bireme.done("stop", "theirs", *on)
    resumed = bireme("resume", *on)
    assert (resumed.status, "bireme resume pytorchjob/theirs" in resumed.err) == (2, True)
    assert bireme.json("show", "theirs", *on)["phase"] == "Suspended"

    bireme.done("run", "-f", file, "--name", "mine", *on, "--detach")
    bireme.done("run", "-f", file, "--name", "later", *on, "--detach", BIREME_HOME=colleague)
    assert bireme.json("show", *on)["name"] == "mine"
    assert "newest active job: pytorchjob/mine" in bireme.done("stop").err


def test_a_beginning_is_not_completed_while_a_cluster_is_silent(bireme: Verbs) -> None:
    gone = bireme.changed()
    file = gone.manifest(pytorch())
    gone.done("run", "-f", file, "--name", "other", "--on", "kubernetes", "--detach")
    bireme.cli.write("sleep.py", scripts.SLEEPS)
    bireme.cli.detached("sleep.py", "--name", "mnist-tf")
    bireme.changed(server="https://127.0.0.1:1")

    stopped = gone("stop", "mnist")

    assert stopped.status == errors.Unreachable.exit_status, stopped.err
    assert gone.json("show", "mnist-tf", "--on", "local")["phase"] != "Suspended"


def test_a_cluster_that_is_dead_costs_a_sentence(bireme: Verbs) -> None:
    bireme.cli.write("train.py", "print('hello')")
    bireme.done("run", "train.py", "--name", "here")
    gone = bireme.changed()
    gone.done("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes", "--detach")
    bireme.changed(server="https://127.0.0.1:1")

    listed = gone("ps", "--all")
    asked = gone("ps", "--on", "kubernetes")

    assert listed.status == 0
    assert "here" in listed.out
    assert "is left out: the API server https://127.0.0.1:1" in listed.err
    assert (asked.status, "does not answer" in asked.err) == (5, True)


def test_who_may_not_is_told_so(bireme: Verbs) -> None:
    nobody = bireme.changed(**{"as": "nobody"})

    listed = nobody("ps", "--on", "kubernetes")
    started = nobody("run", "-f", bireme.manifest(pytorch()), "--on", "kubernetes")

    assert (listed.status, "user nobody may not list" in listed.err) == (4, True)
    assert (started.status, "user nobody may not create" in started.err) == (4, True)


def test_doctor_says_what_the_cluster_offers(bireme: Verbs) -> None:
    view = bireme.json("doctor", "--on", "kubernetes")
    shown = bireme.done("doctor", "--on", "kubernetes").out

    assert view["cluster"]["definitions"] == "bireme"
    assert view["cluster"]["kinds"]["MPIJob"] == [
        "kubeflow.org/v1",
        "kubeflow.org/v2beta1",
        "kubeflow.org/v1alpha2",
    ]
    assert "job kinds   Bireme's: " in shown
    assert "no operator of Bireme holds its lease" in shown
    nobody = bireme.changed(**{"as": "nobody"}).done("doctor", "--on", "kubernetes").out
    assert "nodes       you may not look" in nobody


def test_a_program_does_the_same_even_inside_an_event_loop(bireme: Verbs, tmp_path: Path) -> None:
    client = Client(tmp_path / "sdk-home", os.environ, on="kubernetes", kubeconfig=str(bireme.kubeconfig))

    async def notebook() -> None:
        (job,) = client.submit(pytorch())
        assert job.view().phase is Phase.CREATED
        assert [one.id for one in client.jobs()] == ["mnist"]
        assert client.find("mnist").key == job.key
        job.remove()
        assert client.jobs() == ()

    asyncio.run(notebook())
