"""Ranks that accumulate gradients apart from each other (`no_sync`) continue bit for bit after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.checkpoint_processes import ran, words

pytestmark = [pytest.mark.frameworks]

# The ranks are forked from one process, which has imported torch once; the training is in them alone.
TRAIN = """
import contextlib, pathlib, signal, socket
import torch, torch._dynamo, torch.distributed as dist  # an optimizer imports the second one
from torch.nn.parallel import DistributedDataParallel
import bireme

folder, WINDOW, STEPS = pathlib.Path(sys.argv[1]), 4, 14

def train(where, views, until):
    torch.set_num_threads(1)
    torch.manual_seed(3)
    dist.init_process_group("gloo")
    with bireme.init(checkpoints=folder / where, every=1) as run:
        layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        model = DistributedDataParallel(layers, gradient_as_bucket_view=views)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        start = run.restore(model=model, optimizer=optimizer)
        optimizer.zero_grad()
        for step, _ in run.steps(range(2 * STEPS), start=start):
            is_last = (step + 1) % WINDOW == 0
            torch.manual_seed(1000 * run.rank + step)
            with contextlib.nullcontext() if is_last else model.no_sync():
                (model(torch.randn(16, 8)).square().mean() / WINDOW).backward()
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
            run.save(step, model=model, optimizer=optimizer)
            if step == until:
                run._wait_for_writes()  # so that it is known which step the next one begins with
                os.kill(os.getpid(), signal.SIGKILL)
        if run.rank == 0:
            torch.save([one.tolist() for one in layers.parameters()], folder / f"{where}.weights")
    dist.destroy_process_group()

def gang(where, views, attempt=0, until=-1):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pids = []
    for rank in range(2):
        pids.append(os.fork())
        if not pids[-1]:
            local = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2)
            os.environ.update({name: str(value) for name, value in local.items()})
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            # A later attempt of a named run takes over at once.
            os.environ.update(BIREME_RUN=f"{where}/x", BIREME_ATTEMPT=str(attempt))
            status = 1
            try:
                train(where, views, until)
                status = 0
            finally:
                os._exit(status)
    print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))

gang("undisturbed", False)
for where, views in (("killed", False), ("views", True)):
    gang(where, views, 0, until=1)
    gang(where, views, 1, until=6)
    gang(where, views, 2)
    print(torch.load(folder / f"{where}.weights") == torch.load(folder / "undisturbed.weights"))
"""


def test_ranks_killed_in_the_middle_of_an_accumulation_compute_the_same_bits(tmp_path: Path) -> None:
    said = ran(words(TRAIN, tmp_path)).splitlines()

    assert said == ["0 0", *["-9 -9", "-9 -9", "0 0", "True"] * 2]
