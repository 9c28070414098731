"""Does every example do what its page says, with its real framework, from the command that stands there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.model.status import Phase
from tests.local.harness import Bireme, bireme_in

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

MXNET = Path(sys.prefix) / "mxnet"
"""In a folder of its own, because it needs an old numpy."""

# What each manifest needs on the machine, and what its output has to say.
EXPECTED = {
    "pytorch-digits/job.yaml": ("torch", r"accuracy: 0\.9[5-9]\d* on 360 held-out digits, 2 ranks"),
    "pytorch-digits/pytorchjob.yaml": ("torch", r"accuracy: 0\.9[5-9]\d* on 360 held-out digits, 2 ranks"),
    "lightning-digits/job.yaml": ("lightning", r"accuracy"),
    "tensorflow-mirrored/tfjob.yaml": ("tensorflow", r"accuracy|loss"),
    "tensorflow-ps/tfjob.yaml": ("tensorflow", r"accuracy|loss"),
    "jax-allreduce/jaxjob.yaml": ("jax", r"process 1 of 2: largest error 0\.0"),
    "mpi-ring/mpijob-v1.yaml": ("mpirun", r"correct=True"),
    "mpi-ring/mpijob-v1alpha2.yaml": ("mpirun", r"correct=True"),
    "mpi-ring/mpijob-v2beta1.yaml": ("mpirun", r"correct=True"),
    "xgboost/xgboostjob.yaml": ("xgboost", r"accuracy: 0\.9\d* after 8000 rows on 2 ranks"),
    "paddle/paddlejob.yaml": ("paddle", r"2"),
    "mxnet/mxjob.yaml": ("mxnet", r"worker 1: learnt 2\.0, -3\.4, 1\.7, 0\.3"),
    "job/job.yaml": ("numpy", r"accuracy: 1\.00"),
    "job-indexed/job.yaml": ("python", r"index 2: rate"),
    "numpy-resume/job.yaml": (
        "numpy",
        r"weights after 500 steps: \[(3\.0|2\.9)\d+, -(1\.0|0\.9)\d+, (2\.0|1\.9)\d+\]",
    ),
    "pytorch-resume/job.yaml": ("torch", r"accuracy 0\.9[5-9]\d*, sum of all weights \d"),
    "jax-resume/jaxjob.yaml": ("jax", r"process 1 of 2: accuracy 0\.9[5-9]\d*, weights"),
    "tensorflow-resume/tfjob.yaml": ("tensorflow", r"worker 1 of 2: accuracy 0\.9[5-9]\d*, weights"),
}


@pytest.fixture(scope="module")
def bireme(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bireme]:
    """One home for all, so that what a first run imported is warm for the next."""
    with bireme_in(tmp_path_factory.mktemp("examples")) as command:
        yield command


def test_every_manifest_below_examples_is_expected_here() -> None:
    found = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/*.yaml")}

    assert found == EXPECTED.keys()


@pytest.mark.frameworks
@pytest.mark.parametrize("manifest", EXPECTED)
def test_an_example_succeeds_and_says_what_it_should(bireme: Bireme, manifest: str) -> None:
    need, says = EXPECTED[manifest]
    if not is_there(need):
        pytest.skip(f"{need} is not installed on this machine; `make frameworks` installs it")

    path = ("--env", f"PYTHONPATH={MXNET}") if need == "mxnet" else ()
    done = bireme("run", "-f", str(EXAMPLES / manifest), *path)

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(says, done.stdout), done.stdout[-3000:]
    assert bireme.leftovers() == []


def is_there(need: str) -> bool:
    if need in ("python", "mxnet"):
        return need == "python" or MXNET.is_dir()
    return shutil.which(need) is not None if need == "mpirun" else importlib.util.find_spec(need) is not None


@pytest.mark.frameworks
def test_a_second_run_of_a_script_is_forked_from_a_warm_interpreter(bireme: Bireme) -> None:
    if not is_there("torch"):
        pytest.skip("torch is not installed on this machine; `make torch` installs it")
    script = str(EXAMPLES / "pytorch-digits" / "train.py")

    cold = bireme("run", script, "--workers", "2", "--name", "warm", "--", "--epochs", "2")
    _await_warm(bireme)
    warm = bireme("run", script, "--workers", "2", "--name", "warm", "--", "--epochs", "2")

    assert (cold.returncode, warm.returncode) == (0, 0), warm.stderr
    assert bireme.status("warm").phase is Phase.SUCCEEDED
    assert all(bireme.was_warm("warm"))


@pytest.mark.frameworks
def test_a_new_script_is_forked_from_the_torch_of_another_script(bireme: Bireme) -> None:
    """Tutorial stages 2 to 5 each started cold, though stage 1 had left torch warm."""
    if not is_there("torch"):
        pytest.skip("torch is not installed on this machine; `make torch` installs it")
    script = str(EXAMPLES / "pytorch-digits" / "train.py")
    assert bireme("run", script, "--name", "old", "--", "--epochs", "1").returncode == 0
    _await_warm(bireme)
    bireme.write("new.py", "import bireme, tqdm\nfrom torch import nn\nprint(nn.Linear(2, 1).bias.shape)\n")

    done = bireme("run", "new.py", "--workers", "2", "--name", "new")

    assert (done.returncode, bireme.was_warm("new")) == (0, [True, True]), done.stderr


def _await_warm(bireme: Bireme) -> None:
    from bireme.backends.local.warm.zygote_pool import ZygotePool
    from tests.local.harness import until

    until(
        lambda: any("torch" in one.preload for one in ZygotePool(bireme.home).living()),
        "an interpreter with torch is warm",
    )
