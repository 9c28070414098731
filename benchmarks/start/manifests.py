"""Which jobs are started: PyTorchJobs whose pods write their marks into a folder of this machine."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any  # a manifest is JSON of any shape

from tools.testcluster.images import PYTHON

FRAMEWORKS = "/frameworks"


def job(name: str, pods: int, script: str, folder: Path) -> dict[str, Any]:
    """One job with a master; the same manifest for every operator."""
    specs = {"Master": _role(name, 1, script, folder)}
    if pods > 1:
        specs["Worker"] = _role(name, pods - 1, script, folder)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "annotations": {"bireme.io/restart": "gang"}},
        "spec": {"pytorchReplicaSpecs": specs},
    }


def _role(name: str, replicas: int, script: str, folder: Path) -> dict[str, Any]:
    container = {
        "name": "pytorch",
        "image": PYTHON,
        "command": ["python3", "-u", f"/bench/{script}"],
        "env": [{"name": "PYTHONPATH", "value": FRAMEWORKS}],
        "volumeMounts": [
            {"name": "bench", "mountPath": "/bench"},
            {"name": "frameworks", "mountPath": FRAMEWORKS, "readOnly": True},
        ],
    }
    volumes = [
        {"name": "bench", "hostPath": {"path": str(folder)}},
        {"name": "frameworks", "hostPath": {"path": sysconfig.get_paths()["purelib"]}},
    ]
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"job": name}}}
    spec = {
        "containers": [container],
        "volumes": volumes,
        "terminationGracePeriodSeconds": 1,
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
            }
        },
    }
    template = {"metadata": {"labels": {"job": name}}, "spec": spec}
    return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}
