"""Which clusters do tests have: they come up by themselves, are shared by all tests, and go with the last."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.testcluster import building, clusters
from tools.testcluster.clusters import Wish
from tools.testcluster.places import Home, Missing

from tests.cluster import harness
from tests.cluster.harness import Cluster, ControlPlane, Kubectl

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """An API server without nodes: pods are whatever a test says of them."""
    with _shown(pytestconfig), contextlib.ExitStack() as stack:
        home = stack.enter_context(harness.shared(f"{harness.SHARED}-plane", Wish(nodes=0), building.tell))
        kept = stack.pop_all()
    with kept:
        yield ControlPlane(home.kubeconfig)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster of two nodes that run containers, or the user's own."""
    if own := harness.own_cluster():
        yield Cluster(own, name="")
        return
    with _shown(pytestconfig), contextlib.ExitStack() as stack:
        home = stack.enter_context(harness.shared(harness.SHARED, Wish(nodes=2), building.tell))
        kept = stack.pop_all()
    with kept:
        yield Cluster(home.kubeconfig, home.name)


@pytest.fixture(scope="module")
def breakable(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster of two nodes that is nobody else's: its nodes may lose their power."""
    name = f"breakable-{os.getpid()}"
    with _shown(pytestconfig):
        try:
            clusters.up(name, Wish(nodes=2))
        except Missing as missing:
            pytest.skip(str(missing))
    try:
        yield Cluster(Home(name).kubeconfig, name)
    finally:
        clusters.down(name)


@pytest.fixture
def kubectl(cluster: Cluster) -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own, on the cluster with nodes."""
    with cluster.namespace() as own:
        yield own


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """How the control plane is reached."""
    return control_plane.kubeconfig


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test: it takes longer than a test may."""
    ours = [item for item in session.items if HERE in item.path.parents]
    if not ours or session.config.option.collectonly:
        return
    # What is missing is said by the fixture, of the tests that need it.
    with _shown(session.config), contextlib.suppress(Missing):
        building.build("kubernetes")
        wanted = {name for item in ours for name in getattr(item, "fixturenames", ())}
        if "kueue" in wanted:
            building.build("kueue")
        if "breakable" in wanted or ("cluster" in wanted and not harness.own_cluster()):
            clusters.prepare_for_nodes()


@contextlib.contextmanager
def _shown(config: pytest.Config) -> Iterator[None]:
    """Let progress be seen while it is made."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        yield
