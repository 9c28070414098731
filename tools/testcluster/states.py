"""What is remembered of a cluster that runs: its processes, ports and nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tools.testcluster.places import Home
from tools.testcluster.processes import Process, alive


@dataclass
class State:
    """Written down before anything is waited for, so that whatever was started can be ended."""

    home: Home
    api_port: int
    nodes: dict[str, str] = field(default_factory=dict)
    """The address of each node, by name; none where the cluster is a control plane only."""
    processes: dict[str, Process] = field(default_factory=dict)

    def add(self, process: Process) -> None:
        self.processes[process.name] = process
        self.save()

    def save(self) -> None:
        told = {"api_port": self.api_port, "nodes": self.nodes, "processes": list(self.processes.values())}
        scratch = self.home.state.with_suffix(".new")
        scratch.write_text(json.dumps(told, indent=2) + "\n")
        scratch.replace(self.home.state)

    @property
    def dead(self) -> list[str]:
        """Name the processes that no longer run."""
        return [name for name, one in self.processes.items() if not alive(one)]


def load(home: Home) -> State | None:
    """Return what is remembered of a cluster, if there is one."""
    try:
        told = json.loads(home.state.read_text())
    except FileNotFoundError:
        return None
    processes = {name: Process(name, pid, started) for name, pid, started in told["processes"]}
    return State(home, told["api_port"], told["nodes"], processes)
