"""Runs the real gang schedulers beside a cluster: as processes, with their own definitions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml
from tools.testcluster import processes
from tools.testcluster.building import build, sources

from tests.cluster.harness import Cluster, Json
from tests.cluster.kueue_process import free_ports

PLUGINS, VOLCANO = "scheduler-plugins-scheduler", "volcano"
GROUPS = {PLUGINS: "podgroups.scheduling.x-k8s.io", VOLCANO: "podgroups.scheduling.volcano.sh"}
"""What the pod groups of each are called."""
TIERS = ("priority", "gang", "conformance"), ("overcommit", "drf", "predicates", "proportion", "nodeorder")
"""Volcano's usual plugins."""


@contextlib.contextmanager
def gang_scheduler(name: str, cluster: Cluster, folder: Path) -> Iterator[None]:
    """A gang scheduler that places the pods which ask for it, for as long as this is entered."""
    definitions, command = _KNOWN[name]
    cluster.kubectl("apply", "--server-side", *(f"--filename={one}" for one in definitions()))
    words = command(cluster.kubeconfig, folder)
    process = processes.spawn(name, words, folder / f"{name}.log", processes.bare_environ())
    try:
        yield
    finally:
        processes.end([process])


def group_definitions() -> list[Path]:
    """What the schedulers say pod groups are."""
    return [*_plugins_definitions(), *(one for one in _volcano_definitions() if "podgroups" in one.name)]


def _plugins_definitions() -> list[Path]:
    return [sources("scheduler-plugins") / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"]


def _plugins_command(kubeconfig: Path, folder: Path) -> list[str]:
    only = {"enabled": [{"name": "Coscheduling"}]}
    plugins = {"multiPoint": only, "queueSort": {**only, "disabled": [{"name": "*"}]}}
    config: Json = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": PLUGINS, "plugins": plugins}],
    }
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    program = str(build("scheduler-plugins"))
    return [program, f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={port}"]


def _volcano_definitions() -> list[Path]:
    return sorted((sources("volcano") / "config/crd/volcano/bases").glob("*.volcano.sh_*.yaml"))


def _volcano_command(kubeconfig: Path, folder: Path) -> list[str]:
    tiers = [{"plugins": [{"name": one} for one in tier]} for tier in TIERS]
    file = folder / "volcano.conf"
    file.write_text(yaml.safe_dump({"actions": "enqueue, allocate, backfill", "tiers": tiers}))
    return [
        str(build("volcano")),
        f"--kubeconfig={kubeconfig}",
        f"--scheduler-conf={file}",
        "--leader-elect=false",
        "--cache-dumper=false",
        "--logtostderr",
    ]


_KNOWN: dict[str, tuple[Callable[[], list[Path]], Callable[[Path, Path], list[str]]]] = {
    PLUGINS: (_plugins_definitions, _plugins_command),
    VOLCANO: (_volcano_definitions, _volcano_command),
}
