"""Does Horovod itself train under Bireme, and go on after a kill with the numbers it would have had?

It is compiled first, if that was never done here; so these tests are not among the quick ones.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.horovod.building import built

from bireme.model.status import Phase
from tests.local.harness import Bireme, bireme_in, kill, until
from tests.local.horovod_manifests import GLOO, MPI, MPIRUN, documented

pytestmark = [pytest.mark.soak, pytest.mark.frameworks]

HOROVODRUN = """#!/usr/bin/env python
from horovod.runner.launch import run_commandline
if __name__ == "__main__":
    run_commandline()
"""

# The recipe of docs/script.md, with a model, data, and a print of everything that is computed.
TRAIN = """
import os, pathlib, sys, time
import torch
import horovod.torch as hvd
import bireme
from torch.utils.data import DataLoader, TensorDataset

hvd.init()
torch.manual_seed(hvd.rank())
with bireme.init(every=5) as run:
    assert (run.rank, run.local_rank, run.world_size) == (hvd.rank(), hvd.local_rank(), hvd.size())
    x = torch.arange(320.0).reshape(80, 4) / 320
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    start = run.restore(model=model, optimizer=optimizer)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    pathlib.Path(f"pid-{run.rank}").write_text(str(os.getpid()))
    for step, (x, y) in run.steps(loader, start=start, epochs=4):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        run.report(step, loss=loss)
        run.save(step, model=model, optimizer=optimizer)
        os.write(1, f"loss {run.rank} {step} {loss.item().hex()}.\\n".encode())
        time.sleep(float(os.environ.get("PACE", "0")))
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    others = hvd.allgather(weights.unsqueeze(0))
    assert torch.equal(others[0], others[1])
    os.write(1, f"sum {run.rank} after {run.attempt} restarts {weights.sum().item().hex()}.\\n".encode())
"""


@pytest.fixture
def horovod(tmp_path: Path) -> Iterator[Bireme]:
    for name, package in (("mpirun", "openmpi-bin"), ("mpicxx", "libopenmpi-dev")):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed: apt-get install {package}")
    folder = built()
    with bireme_in(tmp_path) as bireme:
        program = bireme.write("bin/horovodrun", HOROVODRUN)
        program.chmod(0o755)
        for name, first in {"PATH": program.parent, "PYTHONPATH": folder}.items():
            rest = filter(None, [bireme.environ.get(name)])
            bireme.environ[name] = os.pathsep.join([str(first), *rest])
        bireme.environ["HOME"] = str(bireme.folder)
        bireme.write("train.py", TRAIN)
        yield bireme


def losses(output: str) -> dict[str, set[str]]:
    """Every number that was ever computed for each rank and step."""
    found: dict[str, set[str]] = {}
    for key, value in re.findall(r"loss (\d \d+) (\S+)\.", output):
        found.setdefault(key, set()).add(value)
    return found


def sums(output: str) -> set[str]:
    return set(re.findall(r"sum \d after \d restarts (\S+)\.", output))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("command", [GLOO, MPI, MPIRUN], ids=["gloo", "mpi", "mpirun"])
def test_a_killed_rank_changes_nothing_that_is_computed(horovod: Bireme, command: str) -> None:
    horovod.write("job.yaml", documented(command))
    undisturbed = horovod("run", "-f", "job.yaml")
    assert undisturbed.returncode == 0, undisturbed.stdout + undisturbed.stderr

    horovod.environ["PACE"] = "0.1"
    horovod.write("job.yaml", documented(command).replace("name: horovod", "name: disturbed"))
    horovod("run", "-f", "job.yaml", "--detach")
    checkpoints = horovod.run("disturbed").path / "checkpoints"
    until(lambda: any(checkpoints.glob("step-00000001*")), "step 14 is saved")
    kill(int((horovod.folder / "pid-1").read_text()))
    until(lambda: horovod.status("disturbed").phase.is_final, "the job ends")

    logs = horovod("logs", "disturbed").stdout
    assert horovod.status("disturbed").phase is Phase.SUCCEEDED, logs
    assert "continues after step" in logs
    assert len(losses(undisturbed.stdout)) == 2 * 40
    assert losses(logs) == losses(undisturbed.stdout)
    assert len(sums(logs)) == 1
    assert sums(logs) == sums(undisturbed.stdout)
