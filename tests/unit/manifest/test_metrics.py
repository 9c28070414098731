"""Patterns for the numbers of the output are read from both forms, and refused with their place."""

from __future__ import annotations

from bireme.model.job import METRICS_ANNOTATION
from tests.unit.manifest.samples import reading, refusal


def test_the_short_form_has_a_list_of_them() -> None:
    (found,) = reading("script: train.py\nmetrics: [loss, val accuracy]\n").jobs

    assert found.job.annotations[METRICS_ANNOTATION] == "loss\nval accuracy"


def test_a_bad_one_is_refused_with_its_place() -> None:
    text = "script: train.py\nmetrics:\n  - loss\n  - '(?P<name>loss'\n"

    (diagnostic,) = refusal(text)

    assert diagnostic.startswith(
        'job.yaml:4:5 metrics[1]: pattern "(?P<name>loss": it is no regular expression'
    )


def test_a_bad_one_in_an_annotation_is_refused_with_its_place() -> None:
    text = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: digits
  annotations:
    bireme.io/metrics: |
      loss
      loss: (.*)
spec:
  pytorchReplicaSpecs:
    Master:
      template: {spec: {containers: [{name: pytorch, image: a, command: [train]}]}}
"""

    (diagnostic,) = refusal(text)

    assert diagnostic.startswith("job.yaml:6:")
    assert "it has no group (?P<name>...) and (?P<value>...)" in diagnostic
