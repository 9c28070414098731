"""In which order are a cluster's parts started: everything at once, then one look whether it answers."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tools.testcluster import controlplane, dns, nodeprograms, nodes, processes, stocking
from tools.testcluster.certificates import write_kubeconfig
from tools.testcluster.controlplane import Layout
from tools.testcluster.nodeprograms import CONTROL_ADDRESS, Seat
from tools.testcluster.nodes import BRIDGE, Network, Plan, Program
from tools.testcluster.places import HERE, ClusterError, Home
from tools.testcluster.probing import Probe
from tools.testcluster.states import State

READY_WITHIN = 90.0
CONTROL = "control"
API_PORT = 6443


def start_control_plane(home: Home, program: Path, *, controller_manager: bool) -> None:
    """Start a control plane on the machine's loopback, without namespaces."""
    api, etcd, peer, other = _free_ports(4)
    layout = Layout(home, program, "127.0.0.1", api, etcd, peer, (other, 0), nodes=False)
    controlplane.make_certificates(layout, {})
    write_kubeconfig(home.kubeconfig, layout.server, home.certificates, "admin", home.name)
    state = State(home, api)
    _spawn(state, "etcd", controlplane.etcd(layout))
    _spawn(state, "kube-apiserver", controlplane.apiserver(layout))
    probe = Probe(home.kubeconfig)
    _await(state, "the API server", probe.ready)
    if controller_manager:
        _spawn(state, "kube-controller-manager", controlplane.controller_manager(layout))
        _await(state, "the default service account", probe.has_service_account)


def start_cluster(home: Home, program: Path, count: int) -> None:
    """Start a control plane and nodes, each in namespaces of its own."""
    seats = [Seat(number) for number in range(1, count + 1)]
    layout = layout_of(home, program)
    controlplane.make_certificates(layout, {seat.name: seat.address for seat in seats})
    [port] = _free_ports(1)
    write_kubeconfig(home.kubeconfig, f"https://127.0.0.1:{port}", home.certificates, "admin", home.name)
    state = State(home, port, {seat.name: seat.address for seat in seats})
    nodes.start(home, _control_plan(layout, seats), state.add, isolated=False)
    control = state.processes[CONTROL]
    _spawn(state, "forwarder", _forwarder(port, control.pid))
    for seat in seats:
        start_node(state, layout, seat)
    probe = Probe(home.kubeconfig)
    _await(state, "the API server", probe.ready)
    dns.make_objects(probe, CONTROL_ADDRESS)
    _await(state, "the nodes", lambda: probe.nodes_ready() == set(state.nodes))
    _await(state, "the default service account", probe.has_service_account)
    _await(state, "CoreDNS", lambda: _dns_ready(control.pid))


def start_node(state: State, layout: Layout, seat: Seat) -> None:
    """Start one node, new or after a power loss, and plug it in."""
    seats = [Seat(number) for number in range(1, len(state.nodes) + 1)]
    state.home.node(seat.name).mkdir(parents=True, exist_ok=True)
    stocking.give(stocking.stock(), state.home.node(seat.name) / "containerd")
    nodes.start(state.home, nodeprograms.plan(layout, seat, seats), state.add, isolated=True)
    nodes.plug_in(state.processes[CONTROL], state.processes[seat.name])


def layout_of(home: Home, program: Path) -> Layout:
    """Return where a control plane in namespaces of its own listens."""
    return Layout(home, program, CONTROL_ADDRESS, API_PORT, 2379, 2380)


def _spawn(state: State, name: str, command: list[str]) -> None:
    state.add(processes.spawn(name, command, state.home.logs / f"{name}.log", processes.bare_environ()))


def _control_plan(layout: Layout, seats: list[Seat]) -> Plan:
    commands = {
        "etcd": controlplane.etcd(layout),
        "kube-apiserver": controlplane.apiserver(layout),
        "kube-controller-manager": controlplane.controller_manager(layout),
        "kube-scheduler": controlplane.scheduler(layout),
        "coredns": dns.coredns(layout),
    }
    network = Network(BRIDGE, f"{CONTROL_ADDRESS}/24", True, {seat.pods: seat.address for seat in seats})
    return Plan(CONTROL, network, {name: Program(argv) for name, argv in commands.items()})


def _forwarder(port: int, pid: int) -> list[str]:
    return [sys.executable, "-I", "-S", str(HERE / "forwarder.py"), str(port), str(pid), str(API_PORT)]


def _dns_ready(control: int) -> bool:
    question = "import urllib.request as r; r.urlopen('http://127.0.0.1:8181/ready', timeout=2)"
    words = ["nsenter", f"--net=/proc/{control}/ns/net", sys.executable, "-I", "-S", "-c", question]
    return subprocess.run(words, capture_output=True).returncode == 0


def _await(state: State, what: str, ready: Callable[[], bool]) -> None:
    if processes.until(lambda: bool(state.dead) or ready(), READY_WITHIN, pause=0.1) and not state.dead:
        return
    if state.dead:
        raise ClusterError(f"{state.dead[0]} ended by itself:\n{_tail(state.home, state.dead[0])}")
    raise ClusterError(f"{what} did not become ready within {READY_WITHIN:.0f} s")


def _tail(home: Home, name: str) -> str:
    files = [home.logs / f"{name}.log", home.logs / name / "init.log"]
    lines = [
        line for file in files if file.exists() for line in file.read_text(errors="replace").splitlines()
    ]
    return "\n".join(lines[-8:])


def _free_ports(count: int) -> list[int]:
    # All are held until the last is found, so that no two are the same.
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
