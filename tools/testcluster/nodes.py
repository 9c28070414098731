"""How is a node made: private namespaces without any uplink, joined by a cable to the control plane's bridge.

The control plane lives in namespaces of the same kind, so every node can lose its power. No link ever leads
to the machine's own network: whatever a pod or kube-proxy does, no packet can leave the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from tools.testcluster import cgroups, processes
from tools.testcluster.places import HERE, ClusterError, Home
from tools.testcluster.processes import Process

BRIDGE = "cluster0"
DEVICE = "eth0"
NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup")
# Enters each group that stands before the `--`, then becomes the command that stands after it.
ENTER = 'until [ "$1" = -- ]; do echo 0 > "$1"; shift; done; shift; exec "$@"'


@dataclass(frozen=True)
class Program:
    """A program that a node keeps running."""

    argv: Sequence[str]
    after: str = ""
    """It is started once this file exists."""


@dataclass(frozen=True)
class Network:
    """The one device that leads out of a node, as far as the cluster's bridge."""

    device: str
    address: str
    bridge: bool
    routes: dict[str, str]
    """Where each subnet is: behind an address, or (empty) on the device itself."""


@dataclass(frozen=True)
class Plan:
    """What the first process of a node has to arrange."""

    name: str
    network: Network
    programs: dict[str, Program]
    binds: dict[str, str] = field(default_factory=dict)
    """Folders of the node's own, by where it sees them."""
    cpus: int = 0


def start(home: Home, plan: Plan, remember: Callable[[Process], None], *, isolated: bool) -> None:
    """Start a node's first process and its guardian; either of them dies with the other."""
    folder = home.node(plan.name)
    folder.mkdir(parents=True, exist_ok=True)
    (home.logs / plan.name).mkdir(parents=True, exist_ok=True)
    pid_file = folder / "pid"
    pid_file.unlink(missing_ok=True)
    groups = cgroups.make(cgroups.group(home.name, plan.name)) if isolated else []
    seen = ("v2" if cgroups.is_v2() else cgroups.hierarchies()) if isolated else None
    told = {**asdict(plan), "pid_file": str(pid_file), "logs": str(home.logs / plan.name), "cgroups": seen}
    (folder / "plan.json").write_text(json.dumps(told, indent=2))
    log = home.logs / plan.name / "init.log"
    guardian = processes.spawn(
        f"{plan.name}-guardian",
        [
            "sh", "-c", ENTER, "sh", *map(str, groups), "--",
            "unshare", *NAMESPACES, "--fork", "--kill-child", "--propagation", "private",
            sys.executable, "-I", "-S", str(HERE / "nodeinit.py"), str(folder / "plan.json"),
        ],
        log,
        processes.bare_environ(),
    )  # fmt: skip
    remember(guardian)
    if not processes.until(lambda: pid_file.exists() or not processes.alive(guardian), 20.0, pause=0.01):
        raise ClusterError(f"node {plan.name} did not start: {log.read_text().strip()}")
    if not pid_file.exists():
        raise ClusterError(f"node {plan.name} could not be made: {log.read_text().strip()}")
    remember(processes.identify(plan.name, int(pid_file.read_text())))


def plug_in(control: Process, node: Process) -> None:
    """Lay a cable from a node to the bridge, from within the control plane's namespace."""
    cable = cable_name(node.name)
    inside = ["nsenter", f"--net=/proc/{control.pid}/ns/net", "ip", "link"]
    # The old one goes some time after the node that it led to.
    subprocess.run([*inside, "delete", cable], capture_output=True)
    for words in (
        ["add", cable, "type", "veth", "peer", "name", DEVICE, "netns", str(node.pid)],
        ["set", cable, "master", BRIDGE],
        ["set", cable, "up"],
    ):
        answer = subprocess.run([*inside, *words], capture_output=True, text=True)
        if answer.returncode != 0:
            raise ClusterError(f"node {node.name} could not be plugged in: {answer.stderr.strip()}")


def switch_cable(control: Process, node: str, *, on: bool) -> None:
    """Cut a node off from all others, or let it be heard again; what runs on it goes on."""
    inside = ["nsenter", f"--net=/proc/{control.pid}/ns/net", "ip", "link"]
    words = ["set", cable_name(node), "up" if on else "down"]
    answer = subprocess.run([*inside, *words], capture_output=True, text=True)
    if answer.returncode != 0:
        raise ClusterError(f"the cable of node {node} could not be switched: {answer.stderr.strip()}")


def cable_name(node: str) -> str:
    """Name the bridge's end of a cable; names of devices have at most 15 characters."""
    return f"to-{node}"[:15]


def inside(node: Process, *words: str) -> list[str]:
    """Return the words that run a command inside a node."""
    return [
        "nsenter",
        f"--target={node.pid}",
        "--mount",
        "--net",
        "--pid",
        "--uts",
        "--ipc",
        "--cgroup",
        *words,
    ]


def cut_power(home: Home, processes_of_node: Sequence[Process]) -> None:
    """End a node as a power loss does, and remove its control groups."""
    processes.kill(processes_of_node)
    for node in processes_of_node:
        cgroups.remove(cgroups.group(home.name, node.name))
