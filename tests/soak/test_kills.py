"""Is a job ever lost, or a process ever left behind, over many rounds of killing everything in turn."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.model.status import Phase
from tests.local.harness import Bireme, bireme_in, kill, until

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("BIREME_SOAK_ROUNDS", "50"))
PLAIN = """
import os, pathlib, subprocess, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
pathlib.Path(f"ready-{os.environ['RANK']}-{os.environ['BIREME_ATTEMPT']}").touch()
while not pathlib.Path("release").exists():
    time.sleep(0.02)
"""
# Data loader workers that are in the middle of their work when their rank dies.
TORCH = """
import os, pathlib, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
loader = iter(torch.utils.data.DataLoader(range(10**9), num_workers=2))
next(loader)
pathlib.Path(f"ready-{os.environ['RANK']}-{os.environ['BIREME_ATTEMPT']}").touch()
while True:
    next(loader)
    done = torch.tensor([int(pathlib.Path("release").exists())])
    dist.all_reduce(done)
    if done.item() == 2:
        break
    time.sleep(0.02)
"""
MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: job}
spec:
  runPolicy: {backoffLimit: 5}
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: launcher
            image: x
            command: [mpirun, --allow-run-as-root, --oversubscribe, -np, "2", python, wait.py]
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers: [{name: worker, image: x}]
"""
MPI_WAIT = """
import os, pathlib, time
pathlib.Path(f"mpi-{os.environ['OMPI_COMM_WORLD_RANK']}-{os.getpid()}").touch()
while not pathlib.Path("release").exists():
    time.sleep(0.02)
"""

Victims = Callable[[Bireme], list[int]]


def a_rank(bireme: Bireme) -> list[int]:
    return [random.choice(list(bireme.ranks("job").values()))]


def the_runner(bireme: Bireme) -> list[int]:
    return bireme.keepers("job")[1:]


def the_guard(bireme: Bireme) -> list[int]:
    return bireme.keepers("job")[:1]


def guard_and_runner(bireme: Bireme) -> list[int]:
    return bireme.keepers("job")


def everything(bireme: Bireme) -> list[int]:
    everybody = [
        *bireme.keepers("job"),
        *bireme.leftovers(),
        *(one.pid for one in ZygotePool(bireme.home).living()),
    ]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    return everybody


def the_zygote(bireme: Bireme) -> list[int]:
    return [one.pid for one in ZygotePool(bireme.home).living()]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("victims", [a_rank, the_runner, the_guard, guard_and_runner, everything])
def test_plain_ranks_survive(tmp_path: Path, victims: Victims) -> None:
    with bireme_in(tmp_path) as bireme:
        bireme.write("wait.py", PLAIN)
        for number in range(ROUNDS):
            _round(bireme, victims, number)
    print(f"\n{victims.__name__}: {ROUNDS} rounds, 0 lost, 0 orphans")


@pytest.mark.timeout(0)
@pytest.mark.frameworks
@pytest.mark.parametrize("victims", [a_rank, the_runner, the_zygote, everything])
def test_torch_ranks_with_loader_workers_survive(tmp_path: Path, victims: Victims) -> None:
    pytest.importorskip("torch", reason="torch is not installed; `make torch` installs it")
    with bireme_in(tmp_path) as bireme:
        bireme.write("wait.py", TORCH)
        _learn(bireme)
        for number in range(ROUNDS):
            # Only ranks that a zygote has forked can be lost with it.
            _await_zygote(bireme)
            _round(bireme, victims, number)
    print(f"\ntorch, {victims.__name__}: {ROUNDS} rounds, 0 lost, 0 orphans")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("victims", [a_rank, the_runner, everything])
def test_mpi_daemons_leave_nothing_behind(tmp_path: Path, victims: Victims) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed; `make frameworks` installs it")
    with bireme_in(tmp_path) as bireme:
        bireme.write("wait.py", MPI_WAIT)
        bireme.write("mpijob.yaml", MPI)
        for number in range(ROUNDS):
            _mpi_round(bireme, victims, number)
    print(f"\nmpi, {victims.__name__}: {ROUNDS} rounds, 0 lost, 0 orphans")


def _round(bireme: Bireme, victims: Victims, number: int) -> None:
    for path in (*bireme.folder.glob("ready-*"), *bireme.folder.glob("release")):
        path.unlink()
    started = bireme("run", "wait.py", "--workers", "2", "--name", "job", "--detach")
    assert started.returncode == 0, started.stderr
    _await(bireme, 0)
    time.sleep(random.random() * 0.1)
    before = bireme.status("job").attempt
    targets = victims(bireme)
    kill(*targets)
    if victims not in (the_guard,) and targets:
        _after_the_kill(bireme, before)
    (bireme.folder / "release").touch()
    until(lambda: bireme.status("job").phase.is_final, f"the job of round {number} ends")
    status = bireme.status("job")
    assert status.phase is Phase.SUCCEEDED, status
    until(lambda: not bireme.run("job").is_held(), "the runner ends")
    assert bireme.leftovers() == [], f"round {number} left processes behind"


def _learn(bireme: Bireme) -> None:
    """Run once undisturbed, so that it is known what the script imports."""
    (bireme.folder / "release").touch()
    done = bireme("run", "wait.py", "--workers", "2", "--name", "job")
    assert done.returncode == 0, done.stderr


def _await_zygote(bireme: Bireme) -> None:
    def is_warm() -> bool:
        if any("torch" in one.preload for one in ZygotePool(bireme.home).living()):
            return True
        if not bireme.zygotes_in_the_making():
            _learn(bireme)
        return False

    until(is_warm, "an interpreter with torch is warm")


def _after_the_kill(bireme: Bireme, before: int) -> None:
    """The next attempt begins, by the guard or by the next command."""

    def goes_on() -> bool:
        if not bireme.run("job").is_held():
            bireme("ps")
        return bireme.status("job").attempt > before or bireme.status("job").phase.is_final

    until(goes_on, "the next attempt begins")
    if not bireme.status("job").phase.is_final:
        _await(bireme, bireme.status("job").attempt)


def _await(bireme: Bireme, attempt: int) -> None:
    ready = [bireme.folder / f"ready-{rank}-{attempt}" for rank in (0, 1)]
    until(lambda: all(path.exists() for path in ready), f"both ranks of attempt {attempt} run")


def _mpi_round(bireme: Bireme, victims: Victims, number: int) -> None:
    for path in (*bireme.folder.glob("mpi-*"), *bireme.folder.glob("release")):
        path.unlink()
    started = bireme("run", "-f", "mpijob.yaml", "--detach")
    assert started.returncode == 0, started.stderr
    until(lambda: len(list(bireme.folder.glob("mpi-*"))) >= 2, "both MPI ranks run")
    time.sleep(random.random() * 0.1)
    kill(*victims(bireme))

    def over() -> bool:
        (bireme.folder / "release").touch()
        if not bireme.run("job").is_held() and not bireme.status("job").phase.is_final:
            bireme("ps")
        return bireme.status("job").phase.is_final and not bireme.run("job").is_held()

    until(over, f"the MPI job of round {number} ends")
    assert bireme.status("job").phase is Phase.SUCCEEDED, bireme.status("job")
    assert bireme.leftovers() == [], f"round {number} left processes behind"
