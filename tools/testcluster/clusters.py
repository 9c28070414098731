"""How does a cluster come up and go: the same call twice changes nothing, and `down` leaves nothing."""

from __future__ import annotations

import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools.testcluster import cgroups, debian, loading, nodes, processes, starting, stocking
from tools.testcluster.building import Tell, build, tell
from tools.testcluster.nodeprograms import Seat
from tools.testcluster.places import ClusterError, Home, Missing
from tools.testcluster.probing import Probe
from tools.testcluster.states import State, load


@dataclass(frozen=True)
class Wish:
    """What kind of cluster is wanted."""

    nodes: int = 2
    """None: a control plane only, on the machine's loopback."""
    controller_manager: bool = True
    """Without nodes it may be left out: then namespaces stay and nothing is collected."""


def up(name: str, wish: Wish, tell: Tell = tell) -> bool:
    """Bring a cluster up; tell whether it had to be started."""
    home = Home(name)
    with home.locked():
        if _runs(home, wish):
            return False
        _remove(home)
        if wish.nodes:
            prepare_for_nodes(tell)
        program = build("kubernetes", tell)
        began = time.monotonic()
        try:
            _start(home, wish, program)
        except BaseException:
            _keep_logs(home, tell)
            _remove(home)
            raise
    tell(f"cluster {name} is ready after {time.monotonic() - began:.1f} s")
    return True


def down(name: str) -> bool:
    """Take a cluster down; tell whether there was one."""
    home = Home(name)
    with home.locked():
        there = home.folder.exists()
        _remove(home)
        home.lock.unlink()
    return there


def load_images(name: str, archives: list[Path]) -> None:
    """Load images from tar files onto the nodes of a cluster, which have ours from the start."""
    state = _state(name)
    if not state.nodes:
        raise ClusterError(f"cluster {name} is a control plane only, which has no place for images")
    loading.load(state, archives)


def kill_node(name: str, node: str) -> None:
    """Cut a node's power."""
    with Home(name).locked():
        state = _state(name)
        _known(state, node)
        cut = [state.processes.pop(one) for one in (node, f"{node}-guardian") if one in state.processes]
        nodes.cut_power(state.home, cut)
        state.save()


def start_node(name: str, node: str) -> None:
    """Give a node its power back."""
    with Home(name).locked():
        state = _state(name)
        _known(state, node)
        if node not in state.processes:
            layout = starting.layout_of(state.home, build("kubernetes"))
            starting.start_node(state, layout, Seat(list(state.nodes).index(node) + 1))


def switch_cable(name: str, node: str, *, on: bool) -> None:
    """Cut a node off from the others, or connect it again; whatever runs on it goes on."""
    with Home(name).locked():
        state = _state(name)
        _known(state, node)
        nodes.switch_cable(state.processes[starting.CONTROL], node, on=on)


def names() -> list[str]:
    """Name the clusters that there are."""
    return sorted(path.parent.name for path in Home("x").folder.parent.glob("*/state.json"))


def describe(name: str) -> list[str]:
    """Say in a few lines how a cluster is."""
    state = _state(name)
    probe = Probe(state.home.kubeconfig)
    lines = [f"cluster {name}: {'ready' if probe.ready() else 'does not answer'}, {state.home.kubeconfig}"]
    ready = probe.nodes_ready() if state.nodes else set()
    for node, address in state.nodes.items():
        power = "on" if node in state.processes and node not in state.dead else "off"
        lines.append(f"  {node} {address} power {power}, {'Ready' if node in ready else 'not Ready'}")
    return lines + [f"  {one} has ended" for one in state.dead]


def kubectl() -> Path:
    """Return the kubectl of the same release."""
    return build("kubernetes").with_name("kubectl")


def prepare_for_nodes(tell: Tell = tell) -> None:
    """Bring what a cluster with nodes needs beside Kubernetes, or say what is missing."""
    if sys.platform != "linux":
        raise Missing("a cluster with nodes needs Linux")
    if os.geteuid() != 0:
        raise Missing("a cluster with nodes needs root, for namespaces and containers")
    debian.install_missing(tell)
    stocking.stock(tell)


def _runs(home: Home, wish: Wish) -> bool:
    state = load(home)
    if state is None or state.dead:
        return False
    if len(state.nodes) != wish.nodes:
        has = f"{len(state.nodes)} nodes" if state.nodes else "a control plane only"
        raise ClusterError(f"cluster {home.name} runs with {has}: take it down first, or use another --name")
    return Probe(home.kubeconfig).ready()


def _start(home: Home, wish: Wish, program: Path) -> None:
    home.folder.mkdir(parents=True)
    if wish.nodes:
        starting.start_cluster(home, program, wish.nodes)
    else:
        starting.start_control_plane(home, program, controller_manager=wish.controller_manager)


def _remove(home: Home) -> None:
    state = load(home)
    if state:
        # Nothing is kept for later, so nothing has to be put away first.
        processes.kill(list(state.processes.values()))
        for node in state.nodes:
            cgroups.remove(cgroups.group(home.name, node))
    shutil.rmtree(home.folder, ignore_errors=True)


def _state(name: str) -> State:
    state = load(Home(name))
    if state is None:
        raise ClusterError(f"there is no cluster {name}: python -m tools.testcluster up --name {name}")
    return state


def _known(state: State, node: str) -> None:
    if node not in state.nodes:
        there = ", ".join(state.nodes) or "none"
        raise ClusterError(f"cluster {state.home.name} has no node {node}; there are {there}")


def _keep_logs(home: Home, tell: Tell) -> None:
    if home.logs.exists():
        kept = home.folder.with_name(f"{home.name}.failed-logs")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(home.logs, kept)
        tell(f"the logs are in {kept}")
