"""Runs the examples in the test cluster, with its images and the frameworks of the test environment."""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
SITE = Path(sysconfig.get_paths()["purelib"])
MXNET = (Path(sys.prefix) / "mxnet").resolve()
"""In a folder of its own, because it needs an old numpy."""
PYTHON = "bireme.test/python:3.11"
OPEN_MPI = "bireme.test/openmpi:4"
OPEN_MPI_SSH = "bireme.test/openmpi-ssh:4"

Json = Any  # a manifest is whatever its file holds


def adapted(file: Path, namespace: str) -> Json:
    """The manifest of an example with only what an image would hold replaced.

    A framework is gigabytes, so pods read the ones of the test environment, and the example's folder, from
    the node; both are read-only.
    """
    manifest = json.loads(json.dumps(yaml.safe_load(file.read_text())))  # Roles may share an anchor.
    manifest["metadata"]["namespace"] = namespace
    for template in templates(manifest):
        spec = template["spec"]
        for container in spec["containers"]:
            _adapt(container, manifest)
        spec["volumes"] = [
            *spec.get("volumes", []),
            {"name": "example", "hostPath": {"path": str(file.parent)}},
            {"name": "frameworks", "hostPath": {"path": str(MXNET if manifest["kind"] == "MXJob" else SITE)}},
        ]
    return manifest


def templates(manifest: Json) -> list[Json]:
    spec = manifest["spec"]
    if manifest["kind"] == "Job":
        return [spec["template"]]
    field = next(name for name in spec if name.endswith("ReplicaSpecs"))
    return [role["template"] for role in spec[field].values()]


def _adapt(container: Json, manifest: Json) -> None:
    is_mpi = manifest["kind"] == "MPIJob"
    ssh = is_mpi and manifest["apiVersion"].endswith("v2beta1")
    container["image"] = OPEN_MPI_SSH if ssh else OPEN_MPI if is_mpi else PYTHON
    container["workingDir"] = "/example"
    container["volumeMounts"] = [
        *container.get("volumeMounts", []),
        {"name": "example", "mountPath": "/example", "readOnly": True},
    ]
    if not is_mpi:
        container["volumeMounts"].append({"name": "frameworks", "mountPath": "/frameworks", "readOnly": True})
        container["env"] = [
            *container.get("env", []),
            {"name": "PYTHONPATH", "value": "/frameworks"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
        ]
