"""How do images get onto nodes: from a tar file, into each node's containerd, without a registry."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.testcluster import nodes
from tools.testcluster.nodeprograms import SOCKET
from tools.testcluster.places import ClusterError
from tools.testcluster.processes import Process, until
from tools.testcluster.states import State

STARTED_WITHIN = 30.0
CTR = ("ctr", "--address", SOCKET, "--namespace", "k8s.io", "images")


def load(state: State, archives: Iterable[Path]) -> None:
    """Load images onto every node that is on."""
    running = [state.processes[name] for name in state.nodes if name in state.processes]
    for node in running:
        _await_containerd(node)
    for archive in archives:
        # All nodes at a time: most of it is waiting for the disk.
        _together([nodes.inside(node, *CTR, "import", str(archive.resolve())) for node in running])


def _await_containerd(node: Process) -> None:
    answers = nodes.inside(node, *CTR, "list", "--quiet")
    if not until(lambda: subprocess.run(answers, capture_output=True).returncode == 0, STARTED_WITHIN):
        raise ClusterError(f"containerd of {node.name} did not answer within {STARTED_WITHIN:.0f} s")


def _together(commands: Sequence[Sequence[str]]) -> None:
    started = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for words in commands
    ]
    told = [process.communicate()[0] for process in started]
    for process, text in zip(started, told, strict=True):
        if process.returncode != 0:
            raise ClusterError(f"an image could not be loaded: {text.strip()[-600:]}")
