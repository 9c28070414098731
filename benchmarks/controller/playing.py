"""Who plays the kubelet: kwok, which reports every pod of its node as Running, and later as Succeeded."""

from __future__ import annotations

import json
from pathlib import Path

from tools.testcluster import processes
from tools.testcluster.building import build
from tools.testcluster.processes import Process

from benchmarks.controller.manifests import NODE

AT_ONCE = 16
"""Pods that are played side by side."""

_RUNNING = """
{{ $now := Now }}
phase: Running
startTime: {{ $now | Quote }}
podIP: 10.0.0.1
conditions:
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  restartCount: 0
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
"""
_SUCCEEDED = """
{{ $now := Now }}
phase: Succeeded
conditions:
- {type: Ready, status: "False", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  restartCount: 0
  state:
    terminated:
      exitCode: 0
      reason: Completed
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
"""


class Player:
    """One kwok, which can be told once to let every pod succeed."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._kubeconfig, self._folder = kubeconfig, folder
        self._process: Process | None = None

    def run_pods(self) -> None:
        """Report pods as Running from now on."""
        self._start([_stage("run", "Pending", _RUNNING)])

    def end_pods(self) -> None:
        """Report pods as Succeeded from now on."""
        self.stop()
        self._start([_stage("end", "Running", _SUCCEEDED)])

    def stop(self) -> None:
        if self._process is not None:
            processes.end([self._process])
        self._process = None

    def _start(self, stages: list[dict[str, object]]) -> None:
        config = self._folder / "kwok.yaml"
        # JSON is YAML.
        config.write_text("\n---\n".join(json.dumps(one) for one in (_OPTIONS, _NODE, _GONE, *stages)))
        words = [str(build("kwok")), "--config", str(config), "--kubeconfig", str(self._kubeconfig)]
        self._process = processes.spawn("kwok", words, self._folder / "kwok.log")


def _stage(name: str, phase: str, status: str) -> dict[str, object]:
    lives: dict[str, object] = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
    is_in: dict[str, object] = {"key": ".status.phase", "operator": "In", "values": [phase]}
    return _made(name, [lives, is_in], {"statusTemplate": status})


def _made(
    name: str, rules: list[dict[str, object]], following: dict[str, object], kind: str = "Pod"
) -> dict[str, object]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": rules},
            "next": following,
        },
    }


_LEAVES: list[dict[str, object]] = [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]
_GONE = _made("gone", _LEAVES, {"delete": True})
# Without a stage for nodes kwok looks after none, and plays no pod of theirs.
_NODE = _made("node-gone", _LEAVES, {"delete": True}, "Node")
_OPTIONS = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    # Named one by one: what is left out here is 0, which kwok refuses or takes literally.
    "options": {
        "manageSingleNode": NODE,
        "cidr": "10.0.0.0/24",
        "podPlayStageParallelism": AT_ONCE,
        "nodePlayStageParallelism": 1,
        "podsOnNodeSyncParallelism": 1,
    },
}
