"""A TrainJob of Trainer v2 is answered with the PyTorchJob to write instead."""

from __future__ import annotations

import pytest

from bireme.errors import BadManifest
from bireme.model.job import Job
from bireme.model.pods import EnvVar, Resources
from tests.unit import build
from tests.unit.manifest.samples import JAXJOB, job_of, reading

TRAINJOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: mnist
  namespace: team
spec:
  runtimeRef: {name: torch-distributed}
  trainer:
    image: me/train:1
    numNodes: 4
    numProcPerNode: 2
    command: [torchrun, train.py]
    args: ["--epochs", "10"]
    env: [{name: LR, value: "0.1"}]
    resourcesPerNode: {limits: {nvidia.com/gpu: 2}}
"""


def answer(text: str) -> BadManifest:
    with pytest.raises(BadManifest) as caught:
        reading(text)
    return caught.value


def instead(text: str) -> Job:
    first, manifest = answer(text).hint.split("\n", 1)
    assert first == "write this PyTorchJob instead:"
    return job_of(manifest)


def test_the_manifest_to_write_can_be_run() -> None:
    job = instead(TRAINJOB)
    master, worker = job.roles

    assert (job.kind, job.name, job.namespace) == ("PyTorchJob", "mnist", "team")
    assert (master.replicas, worker.replicas) == (1, 3)
    assert master.pod == worker.pod
    assert build.options(job)["nprocPerNode"] == "2"
    assert master.container.image == "me/train:1"
    assert master.container.command == ("torchrun", "train.py")
    assert master.container.args == ("--epochs", "10")
    assert master.container.env == (EnvVar("LR", "0.1"),)
    assert master.container.limits == Resources(devices={"nvidia.com/gpu": 2})


def test_the_whole_manifest_stands_in_the_message() -> None:
    error = answer(TRAINJOB)

    assert str(error).startswith("job.yaml:2:7 kind: a TrainJob of Trainer v2 is not run here")
    assert str(error).endswith(error.hint)
    assert len(str(error).splitlines()) <= 12


def test_other_diagnostics_come_with_it() -> None:
    error = answer(f"{JAXJOB.replace('replicas: 2', 'replicas: -1')}---\n{TRAINJOB}")

    assert len(error.diagnostics) == 2
    assert "kind: PyTorchJob" in str(error)


@pytest.mark.parametrize(
    "spec", ["", "spec: 3\n", "spec: {trainer: {numNodes: x, env: 3, resourcesPerNode: []}}\n"]
)
def test_a_trainjob_that_says_little_gets_an_answer(spec: str) -> None:
    error = answer(f"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n{spec}")

    assert 'metadata: {"name": "my-job"}' in error.hint
    assert "Worker" not in error.hint
