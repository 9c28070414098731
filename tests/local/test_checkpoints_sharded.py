"""Are tensors that are spread over ranks saved by all of them, and restored by any number of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.local.checkpoint_processes import begun, words

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

# One process has torch imported and forks the ranks of each gang: many times quicker than starting them.
# It reads lines: folder, meeting point or null, world size, what to do; and answers what each rank said.
SCRIPT = """
import json
import torch
import torch._dynamo
from torch.distributed import init_process_group, device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
import bireme
from bireme.runtime.checkpoints.state import gradients

torch.set_num_threads(1)

def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

def spread(model, rank, world, meeting, actions):
    init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    shape = (2, world // 2) if "hybrid" in actions else (world,)
    mesh = device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("copy", "shard")[-len(shape):])
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)

def trained(model, optimizer):
    for step in range(3):
        torch.manual_seed(step)
        loss = model(torch.randn(4, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()

def seen(model, optimizer):
    parameters = [whole(one).detach().tolist() for one in model.parameters()]
    states = list(optimizer.state.values())
    return parameters, [whole(one[key]).tolist() for one in states for key in ("exp_avg", "exp_avg_sq")]

def acted(where, meeting, rank, world, actions):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3, bias=False))
    if meeting:
        spread(model, rank, world, meeting, actions)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    checkpoints = Checkpoints(where, Owner("run", rank, world), Keep(), tell)
    for action in actions:
        if action == "train":
            yield list(trained(model, optimizer))
        elif action == "show":
            yield seen(model, optimizer)
        elif action == "save":
            checkpoints.save(5, {"model": model, "optimizer": optimizer}, {"rank": rank}, {})
            checkpoints.wait()
        elif action == "restore":
            found = checkpoints.restore({"model": model, "optimizer": optimizer})
            yield found and [found.step, found.own, found.world_size]
        elif action == "load":
            loaded = bireme.load(where)
            yield [[one.tolist() for one in loaded["model"].values()], loaded.is_sharded]
        elif action == "accumulate":
            torch.manual_seed(rank)
            model(torch.randn(4, 6)).square().mean().backward()
            own = {"gradients": gradients.capture({"model": model})[0]}
            checkpoints.save(5, {"model": model}, own, {})
            checkpoints.wait()
        elif action == "continue":
            gradients.put({"model": model}, checkpoints.restore({"model": model}).own["gradients"])
        elif action == "gradients":
            yield [whole(one.grad).tolist() for one in model.parameters()]
    checkpoints.close()

def forked(rank, where, meeting, world, actions):
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writing, json.dumps(list(acted(where, meeting, rank, world, actions))).encode())
        except Exception as error:
            os.write(writing, json.dumps([repr(error)]).encode())
        os._exit(0)
    os.close(writing)
    return open(reading)

for line in sys.stdin:
    where, meeting, world, actions = json.loads(line)
    pipes = [forked(rank, where, meeting, world, actions) for rank in range(world)]
    print("SAID", json.dumps([json.loads(pipe.read()) for pipe in pipes]), flush=True)
"""

Gang = Callable[..., list[list[Any]]]
Saved = tuple[Path, Any, Any]


@pytest.fixture(scope="module")
def gang() -> Iterator[Gang]:
    process = begun(words(SCRIPT))

    def run(where: Path, meeting: Path | None, world: int, *actions: str) -> list[list[Any]]:
        """What each rank says."""
        assert process.stdin is not None
        assert process.stdout is not None
        order = [str(where), str(meeting) if meeting else None, world, actions]
        process.stdin.write(json.dumps(order) + "\n")
        for line in process.stdout:
            if line.startswith("SAID "):
                return cast("list[list[Any]]", json.loads(line[5:]))
        raise AssertionError("the process ended")

    yield run
    process.communicate()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, gang: Gang) -> Saved:
    """A checkpoint of two ranks, what was in it, and the losses that followed."""
    folder = tmp_path_factory.mktemp("sharded")
    answers = gang(folder / "kept", folder / "meeting", 2, "train", "save", "show", "train")
    assert answers[0][1] == answers[1][1]
    return folder / "kept", answers[0][1], answers[0][2]


def test_every_rank_writes_its_pieces(saved: Saved) -> None:
    folder = saved[0] / "step-000000005"

    sheets = [json.loads((folder / f"rank-{rank}.json").read_bytes())["content"] for rank in range(2)]

    assert [len(sheet["chunks"]) for sheet in sheets] == [9, 9]
    assert sorted(path.suffix for path in folder.iterdir()) == [".bin", ".bin", ".json", ".json", ".json"]


def test_the_same_number_of_ranks_goes_on_bit_for_bit(saved: Saved, gang: Gang, tmp_path: Path) -> None:
    where, state, losses = saved

    answers = gang(where, tmp_path / "meeting", 2, "restore", "show", "train")

    assert [one[0] for one in answers] == [[5, {"rank": rank}, 2] for rank in range(2)]
    assert answers[0][1:] == answers[1][1:] == [state, losses]


def test_another_number_of_ranks_has_the_same_state(saved: Saved, gang: Gang, tmp_path: Path) -> None:
    where, state, _ = saved

    answers = gang(where, tmp_path / "meeting", 3, "restore", "show")

    assert [one[1] for one in answers] == [state] * 3
    assert answers[2][0] == [5, {}, 2]


def test_one_process_has_the_whole_state(saved: Saved, gang: Gang) -> None:
    where, state, _ = saved

    answers = gang(where, None, 1, "restore", "show")

    assert answers == [[[5, {"rank": 0}, 2], state]]


def test_what_one_process_saved_can_be_spread(gang: Gang, tmp_path: Path) -> None:
    ((_, state),) = gang(tmp_path / "kept", None, 1, "train", "save", "show")

    answers = gang(tmp_path / "kept", tmp_path / "meeting", 2, "restore", "show")

    assert [one[1] for one in answers] == [state] * 2


def test_copies_are_written_once(gang: Gang, tmp_path: Path) -> None:
    answers = gang(tmp_path / "kept", tmp_path / "meeting", 4, "hybrid", "train", "save", "show")

    folder = tmp_path / "kept" / "step-000000005"
    sheets = [json.loads((folder / f"rank-{rank}.json").read_bytes())["content"] for rank in range(4)]
    assert [len(sheet["chunks"]) for sheet in sheets] == [9, 9, 0, 0]
    ((_, state),) = gang(tmp_path / "kept", None, 1, "restore", "show")
    assert state == answers[0][1]


def test_outside_of_a_run_it_is_loaded_whole(saved: Saved, gang: Gang) -> None:
    where, (parameters, _), _ = saved

    ((loaded,),) = gang(where, None, 1, "load")

    assert loaded == [parameters, True]


def test_gradients_that_are_spread_and_pending_come_back(tmp_path: Path, gang: Gang) -> None:
    before = gang(tmp_path / "kept", tmp_path / "first", 2, "accumulate", "gradients")
    after = gang(tmp_path / "kept", tmp_path / "second", 2, "continue", "gradients")

    assert after == before
    assert any(number for row in before[0][0][0] for number in row)
