"""Do manifests that people found in tutorials run here with flags alone."""

from __future__ import annotations

import shutil

import pytest

from bireme.model.status import Phase
from tests.local.harness import Bireme, until
from tests.unit.manifest import samples

TELL = "import json, os, sys\nprint(json.loads(os.environ['TF_CONFIG'])['task'], sys.argv[1:])\n"
LOOK = """
import os, sys
there = os.listdir("/mnt/data") if os.path.isdir("/mnt/data") else []
print("looking at", there, sys.argv[1:])
"""
# One write, because the lines of several ranks share one pipe.
SIZE = """
import os
rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
os.write(1, f"rank {rank} of {size}\\n".encode())
"""


def test_the_tfjob_without_a_command(bireme: Bireme) -> None:
    bireme.write("tfjob.yaml", samples.TFJOB_OF_A_TUTORIAL)
    bireme.write("train.py", TELL)

    done = bireme("run", "-f", "tfjob.yaml", "--command", "python train.py")

    assert done.returncode == 0, done.stderr
    assert "{'type': 'worker', 'index': 0}" in done.stdout


def test_the_job_with_a_claim_and_a_gpu(bireme: Bireme) -> None:
    bireme.write("job.yaml", samples.JOB_WITH_A_CLAIM)
    bireme.write("src/train.py", LOOK)
    bireme.write("data/digits", "")

    done = bireme("run", "-f", "job.yaml", "--map", "/opt/app=./src", "--volume", "data-pvc=./data", "--fit")

    assert done.returncode == 0, done.stderr
    assert "it claims 0 nvidia.com/gpu instead of 1" in done.stderr
    assert "looking at" in done.stdout


def test_the_job_with_arguments_for_an_entrypoint(bireme: Bireme) -> None:
    bireme.write("job.yaml", samples.JOB_WITH_ARGUMENTS)
    bireme.write("mnist.py", LOOK)

    done = bireme("run", "-f", "job.yaml", "--command", "python mnist.py", "--fit")

    assert done.returncode == 0, done.stderr
    assert "['--max_steps', '500']" in done.stdout


@pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="mpirun is not installed; `make frameworks` installs it"
)
def test_the_mpijob_of_version_v1alpha2(bireme: Bireme) -> None:
    bireme.write("mpijob.yaml", samples.MPIJOB_OF_2020)
    bireme.write("examples/tensorflow_mnist.py", SIZE)

    done = bireme("run", "-f", "mpijob.yaml", "--map", "/examples=./examples", "--fit")

    assert done.returncode == 0, done.stderr
    assert "rank 0 of 2" in done.stdout
    assert "rank 1 of 2" in done.stdout
    assert bireme.status("tensorflow-mnist").phase is Phase.SUCCEEDED


@pytest.mark.skipif(
    shutil.which("mpirun") is None, reason="mpirun is not installed; `make frameworks` installs it"
)
def test_idle_workers_end_with_their_launcher(bireme: Bireme) -> None:
    bireme.write("mpijob.yaml", samples.MPIJOB_OF_2020.replace("  cleanPodPolicy: Running\n", ""))
    bireme.write("examples/tensorflow_mnist.py", SIZE)

    done = bireme("run", "-f", "mpijob.yaml", "--map", "/examples=./examples", "--fit")

    assert done.returncode == 0, done.stderr
    until(lambda: not bireme.run("tensorflow-mnist").is_held(), "the workers end at once", patience=10)
