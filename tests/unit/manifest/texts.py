"""Texts that several tests of reading share, and two ways to look at what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from bireme.errors import BadManifest
from bireme.manifest.text.source import read_text

MANIFEST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: mnist
  labels: {team: vision}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: "pytorch/pytorch:2.6"
              command: [python, train.py, "--epochs", "10"]
              resources:
                limits: {cpu: 500m, memory: 4Gi, nvidia.com/gpu: 1}
    Worker:
      <<: *replica
      replicas: 2
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  rate: |
    0.1
    0.2
"""


def plain(text: bytes | str) -> list[Any]:  # Any: JSON has no better type
    """Returns the documents of a text as plain data."""
    return [document.root.plain() for document in read_text(text)]


def diagnostic(text: bytes | str) -> str:
    """Returns the whole message that a text is refused with."""
    with pytest.raises(BadManifest) as caught:
        read_text(text, "job.yaml")
    return str(caught.value)
