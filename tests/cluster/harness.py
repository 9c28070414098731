"""What tests use of a cluster: its kubectl, a namespace of their own, its nodes and their power."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.testcluster import clusters, images
from tools.testcluster.building import Tell
from tools.testcluster.clusters import Wish
from tools.testcluster.places import Home, Missing, cache
from tools.testcluster.processes import until

PATIENCE = 120.0
OWN_CLUSTER = "BIREME_TEST_KUBECONFIG"
# Named after the checkout: the operators of two checkouts on one cluster would work on each other's jobs.
SHARED = f"tests-{zlib.crc32(str(Path(__file__).resolve()).encode()):08x}"
PYTHON, OPEN_MPI, OPEN_MPI_SSH = images.PYTHON, images.OPEN_MPI, images.OPEN_MPI_SSH

Json = Any  # whatever the API server answers


@dataclass(frozen=True)
class Kubectl:
    """The kubectl of the cluster's own release, in one namespace."""

    kubeconfig: Path
    namespace: str = "default"

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Return what kubectl prints; it must not fail."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end, whatever that is."""
        return subprocess.run(
            self.command(*words), input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def command(self, *words: str) -> list[str]:
        """Return the words that call kubectl, for one who starts it by himself."""
        return [
            str(clusters.kubectl()),
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *words,
        ]

    def object(self, *words: str) -> Json:
        """Return an object, or a list of them."""
        return json.loads(self("get", *words, "-o", "json"))

    def apply(self, *manifests: Json) -> None:
        """Make objects what their manifests say."""
        self("apply", "-f", "-", stdin=yaml.safe_dump_all(manifests))

    def create(self, manifest: Json) -> None:
        """Make an object of any size: `apply` keeps what it was given in an annotation, which has a limit."""
        self("create", "-f", "-", stdin=yaml.safe_dump(manifest))

    def wait(self, *words: str) -> None:
        """Wait for what `kubectl wait --for=...` can wait for."""
        self("wait", f"--timeout={PATIENCE - 10:.0f}s", *words)

    def logs(self, *words: str) -> str:
        return self("logs", *words)


@dataclass(frozen=True)
class ControlPlane:
    """An API server with its controller-manager, and no nodes."""

    kubeconfig: Path

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.kubeconfig)

    @contextlib.contextmanager
    def namespace(self) -> Iterator[Kubectl]:
        """Make a namespace for one test; it goes, with all that is in it, without being waited for."""
        own = replace(self.kubectl, namespace=f"test-{secrets.token_hex(4)}")
        own("create", "namespace", own.namespace)
        # Pods are refused before it is there.
        assert until(lambda: own.run("get", "serviceaccount", "default").returncode == 0, 30.0)
        try:
            yield own
        finally:
            own.run("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
            own.run("delete", "namespace", own.namespace, "--wait=false")


@dataclass(frozen=True)
class Cluster(ControlPlane):
    """A cluster whose nodes run containers."""

    name: str
    """Of the test cluster; empty where the cluster is the user's own."""

    @property
    def nodes(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.kubectl.object("nodes")["items"]]

    def load(self, *archives: str | Path) -> None:
        """Load images from tar files; those of ours are there. A user's own cluster has to have them all."""
        others = [Path(one) for one in archives if one not in images.NAMES]
        if self.name and others:
            clusters.load_images(self.name, others)

    def kill_node(self, node: str) -> None:
        """Cut a node's power."""
        clusters.kill_node(self._ours("a node loses its power"), node)

    def start_node(self, node: str) -> None:
        """Give a node its power back, and wait until it is Ready."""
        clusters.start_node(self._ours("a node loses its power"), node)
        self.kubectl.wait("--for=condition=Ready", f"node/{node}")

    def unplug_node(self, node: str) -> None:
        """Cut a node off from all others; what runs on it goes on."""
        clusters.switch_cable(self._ours("a node is cut off"), node, on=False)

    def plug_node(self, node: str) -> None:
        """Connect a node again, and wait until it is Ready."""
        clusters.switch_cable(self._ours("a node is cut off"), node, on=True)
        self.kubectl.wait("--for=condition=Ready", f"node/{node}")

    def advertise(self, node: str, resource: str, count: int) -> None:
        """Let a node offer what it does not have, such as `nvidia.com/gpu`; no device is handed over."""
        key = resource.replace("~", "~0").replace("/", "~1")
        patch = [{"op": "add", "path": f"/status/capacity/{key}", "value": str(count)}]
        self.kubectl("patch", f"node/{node}", "--subresource=status", "--type=json", "-p", json.dumps(patch))
        assert until(lambda: self._offered(node, resource) == str(count), 30.0), (
            f"{node} does not offer {resource}"
        )

    def _offered(self, node: str, resource: str) -> str | None:
        found: str | None = self.kubectl.object(f"node/{node}")["status"]["allocatable"].get(resource)
        return found

    def _ours(self, why: str) -> str:
        if not self.name:
            pytest.skip(f"{why}, which is not done to the cluster of {OWN_CLUSTER}")
        return self.name


def frameworks() -> tuple[Json, Json, Json]:
    """Return a volume, its mount and the variable that give a pod the frameworks of the test environment."""
    packages = sysconfig.get_paths()["purelib"]
    volume = {"name": "frameworks", "hostPath": {"path": packages, "type": "Directory"}}
    mount = {"name": "frameworks", "mountPath": "/frameworks", "readOnly": True}
    return volume, mount, {"name": "PYTHONPATH", "value": "/frameworks"}


@contextlib.contextmanager
def shared(name: str, wish: Wish, tell: Tell) -> Iterator[Home]:
    """Use a cluster together with other runs of the tests; the last takes down what one brought up."""
    home = Home(name)
    mark = home.folder / "brought-up-by-tests"
    (cache() / "clusters").mkdir(parents=True, exist_ok=True)
    with open(cache() / "clusters" / f"{name}.users", "w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            if clusters.up(name, wish, tell):
                mark.touch()
        except Missing as missing:
            pytest.skip(str(missing))
        try:
            yield home
        finally:
            if mark.exists() and _alone(users.fileno()):
                clusters.down(name)


def own_cluster() -> Path | None:
    """Return the kubeconfig of the cluster that the user wants the tests to use."""
    path = os.environ.get(OWN_CLUSTER)
    return Path(path) if path else None


def _alone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
