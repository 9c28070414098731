"""Does a run that was killed again and again compute what an undisturbed one does, bit for bit?"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator

import pytest

from bireme.model.status import Phase
from tests.local.harness import Bireme, bireme_in, kill, until

VICTIMS = ("rank 0", "rank 1", "both ranks", "runner")
RUNS = max(1, int(os.environ.get("BIREME_SOAK_ROUNDS", "4")) // len(VICTIMS))
"""Each run is killed once for each victim: more crashes in a row would have to wait longer and longer."""
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(600)]

# Everything that could make two runs differ is in it: dropout, momentum, a schedule, shuffling, augmentation
# in loader processes, epochs that end in the middle of an interval.
TRAIN = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
import bireme

class Noisy(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(97, 16, generator=generator)
        self.y = (self.x.sum(1) > 0).long()
    def __len__(self):
        return len(self.x)
    def __getitem__(self, index):
        return self.x[index] + 0.1 * torch.randn(16), self.y[index]

workers, pause = int(sys.argv[1]), float(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(3)
dist.init_process_group("gloo")
with bireme.init(every=int(sys.argv[4]), seed=5) as run:
    layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))
    model = DistributedDataParallel(layers)
    torch.manual_seed(run.rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.7)
    parts = dict(model=model, optimizer=optimizer, scheduler=scheduler)
    start = run.restore(**parts)
    pathlib.Path(f"pid-{run.rank}").write_text(str(os.getpid()))
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=workers)
    with open(f"losses-{run.rank}", "a", buffering=1) as losses:
        for step, (x, y) in run.steps(loader, start=start, epochs=int(sys.argv[3])):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.write(f"{step} {loss.item().hex()} {len(y)}\\n")
            run.report(step, loss=loss)
            run.save(step, **parts)
            time.sleep(pause)
    if run.rank == 0:
        torch.save([tensor.clone() for tensor in model.module.state_dict().values()], "weights")
dist.destroy_process_group()
"""


@pytest.fixture(scope="module", params=[0, 2], ids=["no loader processes", "two loader processes"])
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with bireme_in(tmp_path_factory.mktemp("undisturbed")) as command:
        run = Run(command, request.param)
        run.begin(pause=0)
        run.finish()
        assert command.status("job").attempt == 0
        yield run


class Run:
    """A training of two ranks, what it wrote, and its end."""

    def __init__(self, bireme: Bireme, loaders: int) -> None:
        self.bireme, self.loaders = bireme, loaders

    def begin(self, pause: float, every: int = 7) -> None:
        self.bireme.write("train.py", TRAIN)
        words = ("run", "train.py", "--workers", "2", "--name", "job", "--retries", "100", "--detach")
        done = self.bireme(*words, "--", str(self.loaders), str(pause), "15", str(every))
        assert done.returncode == 0, done.stderr

    def finish(self) -> None:
        until(lambda: self.bireme.status("job").phase.is_final, "the job ends")
        logs = self.bireme("logs", "job").stdout
        assert self.bireme.status("job").phase is Phase.SUCCEEDED, logs[-3000:]

    def losses(self, rank: int) -> dict[int, set[str]]:
        """Every value that was ever computed for each step."""
        found: dict[int, set[str]] = {}
        path = self.bireme.folder / f"losses-{rank}"
        for line in path.read_text().splitlines() if path.exists() else []:
            words = line.split()
            if len(words) == 3:  # a killed rank may leave half a line
                found.setdefault(int(words[0]), set()).add(" ".join(words[1:]))
        return found

    def reached(self) -> int:
        return max(self.losses(0), default=-1)

    def weights(self) -> str:
        return hashlib.sha256((self.bireme.folder / "weights").read_bytes()).hexdigest()


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_run_killed_at_random_steps_computes_the_same_bits(
    bireme: Bireme, undisturbed: Run, seed: int
) -> None:
    chance = random.Random(seed)
    run = Run(bireme, undisturbed.loaders)
    run.begin(pause=0.03)
    last = max(undisturbed.losses(0))

    for victim in chance.sample(VICTIMS, len(VICTIMS)):
        attempt = bireme.status("job").attempt
        step = run.reached() + chance.randint(1, 15)
        assert step < last, "the run is too short for so many kills"
        until(lambda step=step: run.reached() >= step, f"step {step} is done")  # type: ignore[misc]
        strike(bireme, victim)
        until(lambda attempt=attempt: bireme.status("job").attempt > attempt, "the next attempt begins")  # type: ignore[misc]
    run.finish()

    assert bireme.status("job").attempt == len(VICTIMS)
    for rank in (0, 1):
        assert run.losses(rank) == undisturbed.losses(rank)
    assert run.weights() == undisturbed.weights()


def strike(bireme: Bireme, victim: str) -> None:
    ranks = [int((bireme.folder / f"pid-{rank}").read_text()) for rank in (0, 1)]
    assert set(ranks) == set(bireme.ranks("job").values())
    kill(
        *{
            "rank 0": ranks[:1],
            "rank 1": ranks[1:],
            "both ranks": ranks,
            "runner": bireme.keepers("job")[-1:],
        }[victim]
    )


def test_a_stopped_run_saves_its_last_step_and_resumes_after_it(bireme: Bireme) -> None:
    run = Run(bireme, 0)
    run.begin(pause=0.1, every=10_000)  # so that only the stop saves
    until(lambda: run.reached() >= 2, "the run has begun")

    stopped = bireme("stop", "job")
    reached = run.reached()
    bireme("resume", "job")
    until(lambda: run.reached() > reached, "the run goes on")

    assert stopped.returncode == 0, stopped.stderr
    assert f"continues after step {reached}" in bireme("logs", "job").stdout
    assert all(len(values) == 1 for values in run.losses(0).values())
