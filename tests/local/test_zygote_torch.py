"""Do real frameworks work in forked ranks as they do in fresh processes."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.runtime import linux
from tests.local.test_rank import run, write
from tests.local.zygotes import Runner, Zygote, zygote

MISSING = [name for name in ("torch", "numpy", "lightning") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux"),
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} is not installed here: make torch"),
]


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    modules = "numpy.random,torch,torch._dynamo,torch.distributed,torch.utils.data,lightning"
    with zygote(tmp_path_factory.mktemp("warm") / "z", modules) as started:
        yield started


@pytest.fixture
def runner(warm: Zygote) -> Iterator[Runner]:
    connected = warm.connect()
    assert connected.ask("status")["failed"] == []
    yield connected
    connected.close()


def says(runner: Runner, folder: Path, source: str, **more: str) -> str:
    """What a script prints in a forked rank."""
    write(folder, "train", source)
    rank, started = runner.start(folder, "train.py", env={**os.environ, **more})
    out, err = rank.out.read().decode(), rank.err.read().decode()
    assert (runner.finish(rank), started["warm"]) == (0, True), err
    return out


def test_fresh_and_forked_processes_seed_torch_alike(tmp_path: Path, runner: Runner) -> None:
    """Torch seeds itself from the system in every process, so two forks must differ as two processes do."""
    source = "import torch\nprint(torch.initial_seed(), torch.rand(1).item())\n"

    drawn = {says(runner, tmp_path, source), says(runner, tmp_path, source), run(tmp_path, "train.py").out}

    assert len(drawn) == 3


def test_a_seed_means_the_same_in_both(tmp_path: Path, runner: Runner) -> None:
    source = """
import numpy, random, torch
torch.manual_seed(7); numpy.random.seed(7); random.seed(7)
print(torch.rand(3).tolist(), torch.randperm(5).tolist(), numpy.random.rand(), random.random())
"""

    assert says(runner, tmp_path, source) == run(tmp_path, "train.py").out


def test_numpy_draws_numbers_of_its_own(tmp_path: Path, runner: Runner) -> None:
    source = "import numpy\nprint(numpy.random.rand())\n"

    assert says(runner, tmp_path, source) != says(runner, tmp_path, source)


@pytest.mark.parametrize("number", ["1", "64", ""])
def test_as_many_threads_as_a_fresh_process_would_use(tmp_path: Path, runner: Runner, number: str) -> None:
    source = """
import numpy, torch
numpy.ones((300, 300)) @ numpy.ones((300, 300))
x = torch.ones(300, 300, requires_grad=True)
(x @ x).sum().backward()
print(torch.get_num_threads(), x.grad[0, 0].item())
"""

    forked = says(runner, tmp_path, source, OMP_NUM_THREADS=number)

    assert forked == run(tmp_path, "train.py", OMP_NUM_THREADS=number).out


def test_one_thread_is_one_thread(tmp_path: Path, runner: Runner) -> None:
    source = """
import os, torch
torch.ones(300, 300) @ torch.ones(300, 300)
print(len(os.listdir("/proc/self/task")))
"""

    assert says(runner, tmp_path, source, OMP_NUM_THREADS="1") == "1\n"


ALL_REDUCE = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
total = torch.ones(3) * (dist.get_rank() + 1)
dist.all_reduce(total)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
model(torch.rand(8, 4)).mean().backward()
print(total.tolist(), model.module.weight.grad.shape)
dist.destroy_process_group()
"""


def ranks(runner: Runner, folder: Path) -> list[str]:
    """What two ranks of the script print until both have ended."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    gang = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        runner.order(folder, "train.py", env={**os.environ, **gang, "RANK": str(n), "LOCAL_RANK": str(n)})
        for n in range(2)
    ]
    return [rank.out.read().decode() for rank in started]


def test_two_ranks_reduce_together(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "train", ALL_REDUCE)

    assert ranks(runner, tmp_path) == ["[3.0, 3.0, 3.0] torch.Size([1, 4])\n"] * 2


GATHER_AND_GO = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = model(torch.ones(8, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses = [torch.zeros(()) for _ in range(2)]
        dist.all_gather(losses, loss.detach())
    print("end", flush=True)
    dist.destroy_process_group()

main()
"""


@pytest.mark.timeout(120)
def test_ranks_that_leave_their_group_right_after_a_collective_end(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "train", GATHER_AND_GO)

    for _ in range(5):
        assert ranks(runner, tmp_path) == ["end\n"] * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_load_data_of_a_class_in_the_script(tmp_path: Path, runner: Runner, method: str) -> None:
    source = f"""
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self): return 8
    def __getitem__(self, index): return torch.tensor(index)

if __name__ == "__main__":
    loader = DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context="{method}")
    print(sum(batch.sum().item() for batch in loader))
"""

    assert says(runner, tmp_path, source) == "28\n"


def test_lightning_knows_its_rank(tmp_path: Path, runner: Runner) -> None:
    source = """
from lightning.pytorch.utilities import rank_zero_only
from torchmetrics.utilities.prints import rank_zero_only as metrics
print(rank_zero_only.rank, metrics.rank)
"""

    assert says(runner, tmp_path, source, RANK="3", LOCAL_RANK="1") == "3 1\n"
    assert run(tmp_path, "train.py", RANK="3", LOCAL_RANK="1").out == "3 1\n"


def test_importing_torch_is_not_asking_for_the_rank(tmp_path: Path) -> None:
    """Otherwise nobody could ever be told that a script ran as independent copies."""
    write(tmp_path, "train", "import torch\ntorch.ones(2).sum()\n")
    rank = str(Path(linux.__file__).parent / "start_rank.py")
    path = tmp_path / "report"

    subprocess.run(
        [sys.executable, rank, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "RANK": "0", "WORLD_SIZE": "2", "BIREME_REPORT": str(path)},
        check=True,
    )

    assert '"read_rank":false' in path.read_text()
    assert '"torch.distributed"' in path.read_text()


def test_compiled_code_may_read_the_environment(tmp_path: Path, runner: Runner) -> None:
    """Dynamo looks into os.environ, of which a rank that reports has a watched one."""
    source = """
import os, torch
@torch.compile(backend="eager", fullgraph=True)
def double(x): return x * int(os.environ.get("FACTOR", "1"))
print(double(torch.ones(1)).item())
"""

    out = says(runner, tmp_path, source, FACTOR="2", RANK="0", BIREME_REPORT=str(tmp_path / "report"))
    assert out == run(tmp_path, "train.py", FACTOR="2").out
