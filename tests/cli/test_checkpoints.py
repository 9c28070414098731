"""A run's checkpoints are listed, and another run goes on from one of them by name."""

from __future__ import annotations

import json
import sys

import pytest

from tests.cli.commands import Cli

TRAIN = """
import os
import bireme

with bireme.init(every=1) as run:
    start = run.restore(count=None) if "BIREME_FROM" in os.environ else run.restore()
    print("begins with", int(start), start.values.get("count"), flush=True)
    for step in range(start, 3):
        run.report(step, loss=1.0 / (step + 1))
        run.save_now(step, count={"step": step})
"""


@pytest.fixture
def old(cli: Cli) -> Cli:
    """A home in which the run `old` has saved the steps 0, 1 and 2."""
    cli.write("train.py", TRAIN)
    done = cli("run", "train.py", "--name", "old")
    assert done.status == 0, done.err
    return cli


def test_they_are_listed_with_what_was_reported(old: Cli) -> None:
    shown, told = old("checkpoints", "old"), old("checkpoints", "old", "--verify", "--json")

    assert [line.split()[0] for line in shown.out.splitlines()] == ["STEP", "0", "1", "2"]
    assert "loss=0.3333" in shown.out
    found = json.loads(told.out)["checkpoints"]
    assert [(one["step"], one["is_good"]) for one in found] == [(0, True), (1, True), (2, True)]


def test_a_run_goes_on_from_the_step_that_is_named(old: Cli) -> None:
    done = old("run", "train.py", "--name", "new", "--from", "old@1")

    assert done.status == 0, done.err
    assert "begins with 2 {'step': 1}" in done.out
    assert [one.split()[0] for one in old("checkpoints", "new").out.splitlines()[1:]] == ["2"]


@pytest.mark.parametrize(
    ("origin", "says"),
    [
        ("old@7", "it has steps 0, 1, 2"),
        ("old@last", "write train-abcd@1200"),
        ("absent", "there is no run absent"),
        ("./nowhere", "no checkpoint to continue from"),
    ],
)
def test_what_cannot_be_continued_is_refused_and_starts_nothing(old: Cli, origin: str, says: str) -> None:
    done = old("run", "train.py", "--name", "new", "--from", origin)

    assert done.status == 2
    assert says in done.err
    assert "new" not in old("ps", "--all").out


def test_a_run_without_checkpoints_says_where_it_has_none(cli: Cli) -> None:
    cli.write("train.py", "print('done')")
    cli("run", "train.py", "--name", "plain")

    done = cli("checkpoints", "plain")

    assert (done.status, done.out) == (0, "")
    assert "plain has saved no checkpoint in " in done.err


UNSAVED = """
import bireme

with bireme.init(checkpoints="taken", every=2) as run:
    for step in range(5):
        run.save(step, count=step)
"""


def test_a_run_that_never_managed_to_save_does_not_end_as_a_plain_success(cli: Cli) -> None:
    cli.write("train.py", UNSAVED)
    cli.write("taken", "a file where the folder should be")

    done = cli("run", "train.py", "--name", "train")
    shown, told = cli("show", "train").out, json.loads(cli("show", "train", "--json").out)

    lost = "train saved no checkpoint: all 3 saves failed, the last one of step 4: "
    assert done.status == 0
    assert lost in done.err
    assert done.err.rstrip().splitlines()[-1].startswith("Succeeded in ")
    assert lost in shown
    assert told["phase"] == "Succeeded"
    assert [one["type"] for one in told["events"] if one["reason"] == "CheckpointsNotSaved"] == ["Warning"]


WEIGHTS = """
import torch
import bireme

model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
with bireme.init() as run:
    for step in (4, 9):
        torch.nn.init.constant_(model.weight, float(step))
        run.save_now(step, model=model, optimizer=optimizer)
"""


@pytest.mark.frameworks
def test_a_checkpoint_is_exported_to_a_file_that_torch_reads(cli: Cli) -> None:
    torch = pytest.importorskip("torch")
    cli.write("train.py", WEIGHTS)
    assert cli("run", "train.py", "--name", "old", "--python", sys.executable).status == 0

    named = cli("checkpoints", "export", "old@4", "model.pt", "--json")
    again = cli("checkpoints", "export", "old", "model.pt")
    first = torch.load(cli.folder / "model.pt", weights_only=True)
    forced = cli("checkpoints", "export", "old", "model.pt", "--part", "optimizer", "--force")
    absent = cli("checkpoints", "export", "old", "other.pt", "--part", "weights")

    assert named.status == 0, named.err
    told = json.loads(named.out)
    assert (told["part"], told["step"], told["others"]) == ("model", 4, ["optimizer"])
    assert first["weight"].tolist() == [[4.0] * 3] * 2
    assert (again.status, "--force" in again.err) == (2, True)
    assert forced.status == 0, forced.err
    assert "wrote optimizer of old@9 to model.pt" in forced.err
    assert torch.load(cli.folder / "model.pt", weights_only=True)["param_groups"][0]["momentum"] == 0.9
    assert (absent.status, "model, optimizer" in absent.err) == (2, True)
    assert [path.name for path in cli.folder.iterdir() if "pt" in path.name] == ["model.pt"]
