"""Where is measured: a cluster of two nodes, which the operators serve in turn, each alone."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tools.testcluster import clusters, processes
from tools.testcluster.clusters import Wish
from tools.testcluster.images import PYTHON
from tools.testcluster.places import Home

from benchmarks import trainingoperator
from benchmarks.controller.contestants import operator
from benchmarks.wire import Line
from bireme.operator.install import crds

NAME = "benchmark-start"
PATIENCE = 60.0
SCRIPTS = ("reduce.py", "torchreduce.py")
# As its own, but for the program that asks for the name: the image of the tests has no nslookup.
INIT_CONTAINER = """
- name: init-pytorch
  image: {{.InitContainerImage}}
  imagePullPolicy: IfNotPresent
  resources:
    limits:
      cpu: 100m
      memory: 20Mi
    requests:
      cpu: 50m
      memory: 10Mi
  command:
  - sh
  - -c
  - >-
    err=1; for i in $(seq {{.MaxTries}}); do if getent hosts {{.MasterAddr}}; then err=0 && break; fi;
    echo waiting for master; sleep 2; done; exit $err
"""


class Field:
    """The cluster, and a folder that its pods see as /bench."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = Home(NAME).kubeconfig
        self.line = Line(self.kubeconfig)

    def create(self, manifest: dict[str, object]) -> None:
        """Create a job as a user does."""
        self._kubectl("create", "-f", "-", stdin=json.dumps(manifest))

    def remove(self, name: str) -> None:
        """Delete a job and wait until the last of its pods is gone."""
        self._kubectl("delete", "pytorchjob", name, "--wait=false")
        pods = f"/api/v1/namespaces/default/pods?labelSelector=training.kubeflow.org/job-name={name}"
        if not processes.until(lambda: not self.line.get(pods)["items"], PATIENCE):
            raise SystemExit(f"the pods of {name} did not go within {PATIENCE:.0f} s")

    def node_of(self, pod: str) -> str:
        return str(self.line.get(f"/api/v1/namespaces/default/pods/{pod}")["spec"]["nodeName"])

    def cut_power(self, node: str) -> None:
        clusters.kill_node(NAME, node)

    def give_power(self, node: str) -> None:
        """Start a node again, and wait until it may have pods."""
        clusters.start_node(NAME, node)

        def is_ready() -> bool:
            conditions = self.line.get(f"/api/v1/nodes/{node}")["status"]["conditions"]
            return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

        if not processes.until(is_ready, PATIENCE):
            raise SystemExit(f"{node} was not ready again within {PATIENCE:.0f} s")

    def _kubectl(self, *words: str, stdin: str = "") -> None:
        command = [str(clusters.kubectl()), f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr}")


@contextlib.contextmanager
def fresh() -> Iterator[Field]:
    """Bring up a cluster of our own for as long as this is entered."""
    clusters.down(NAME)
    clusters.up(NAME, Wish(nodes=2))
    try:
        with tempfile.TemporaryDirectory(prefix="bireme-bench-") as text:
            folder = Path(text)
            (folder / "marks").mkdir()
            for script in SCRIPTS:
                shutil.copy(Path(__file__).with_name(script), folder)
            field = Field(folder)
            # The rival writes the same status, so our definitions serve it too, and none has to be replaced.
            for one in crds.every():
                field.line.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
            field.line.ensure("/api/v1/namespaces", {"metadata": {"name": trainingoperator.NAMESPACE}})
            secrets = f"/api/v1/namespaces/{trainingoperator.NAMESPACE}/secrets"
            field.line.ensure(secrets, {"metadata": {"name": trainingoperator.SECRET}})
            (folder / "init.yaml").write_text(INIT_CONTAINER)
            yield field
    finally:
        clusters.down(NAME)


@contextlib.contextmanager
def ours(field: Field) -> Iterator[None]:
    """Let our operator serve the cluster."""
    log = field.folder / "operator.log"
    log.unlink(missing_ok=True)
    process = processes.spawn("operator", operator(str(field.kubeconfig)), log)
    try:
        _await(log, '"watching"')
        yield
    finally:
        processes.end([process])


@contextlib.contextmanager
def rival(field: Field) -> Iterator[None]:
    """Let the Training Operator serve the cluster, with its defaults."""
    log = field.folder / "training-operator.log"
    log.unlink(missing_ok=True)
    flags = (
        f"-pytorch-init-container-image={PYTHON}",
        f"-pytorch-init-container-template-file={field.folder / 'init.yaml'}",
    )
    with trainingoperator.started(field.kubeconfig, field.line, log, *flags):
        _await(log, '"controller": "pytorchjob-controller", "worker count"')
        yield


OPERATORS: dict[str, Callable[[Field], AbstractContextManager[None]]] = {
    "Training Operator": rival,
    "bireme": ours,
}


def _await(log: Path, text: str) -> None:
    if not processes.until(lambda: log.exists() and text in log.read_text(errors="replace"), PATIENCE):
        raise SystemExit(f"an operator was not ready within {PATIENCE:.0f} s: {log.read_text()[-2000:]}")
