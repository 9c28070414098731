"""Are tensors that are spread over ranks saved by all of them, and restored by any number of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.local.checkpointing import PATIENCE, environment, words

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]

# Arguments: folder, meeting point, rank, world size, what to do.
SCRIPT = """
import json
import torch
from torch.distributed import init_process_group, device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

where, meeting, rank, world, actions = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3, bias=False))
if meeting != "alone":
    init_process_group("gloo", init_method="file://" + meeting, rank=rank, world_size=world)
    shape = (2, world // 2) if "hybrid" in actions else (world,)
    names = ("copy", "shard")[-len(shape):]
    mesh = device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
checkpoints = opened("run", 0, rank, world)

def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

def trained(steps):
    for step in range(steps):
        torch.manual_seed(step)
        loss = model(torch.randn(4, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()

def seen():
    states = [whole(state[key]).tolist() for state in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq")]
    return [[whole(one).detach().tolist() for one in model.parameters()], states]

for action in actions:
    if action == "train":
        print(json.dumps(list(trained(3))))
    elif action == "show":
        print(json.dumps(seen()))
    elif action == "save":
        checkpoints.save(5, {"model": model, "optimizer": optimizer}, {"rank": rank}, {})
        checkpoints.wait()
    elif action == "restore":
        found = checkpoints.restore({"model": model, "optimizer": optimizer})
        print(json.dumps([found.step, found.own, found.world_size]))
checkpoints.close()
if meeting != "alone":
    torch.distributed.destroy_process_group()
"""


def gang(where: Path, meeting: Path, world: int, *actions: str) -> list[list[Any]]:
    """What each rank says, line by line."""
    processes = [
        subprocess.Popen(
            words(SCRIPT, where, meeting, rank, world, *actions),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    answers = []
    try:
        for process in processes:
            out, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, out + errors
            answers.append([json.loads(line) for line in out.splitlines()])
    finally:
        for process in processes:
            process.kill()
    return answers


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A checkpoint of two ranks, what was in it, and the losses that followed."""
    folder = tmp_path_factory.mktemp("sharded")
    answers = gang(folder / "kept", folder / "meeting", 2, "train", "save", "show", "train")
    assert answers[0][1] == answers[1][1]
    return folder / "kept", answers[0][1], answers[0][2]


def test_every_rank_writes_its_pieces(saved: tuple[Path, Any, Any]) -> None:
    folder = saved[0] / "step-000000005"

    sheets = [json.loads((folder / f"rank-{rank}.json").read_bytes())["content"] for rank in range(2)]

    assert [len(sheet["chunks"]) for sheet in sheets] == [9, 9]
    assert sorted(path.suffix for path in folder.iterdir()) == [".bin", ".bin", ".json", ".json", ".json"]


def test_the_same_number_of_ranks_goes_on_bit_for_bit(saved: tuple[Path, Any, Any], tmp_path: Path) -> None:
    where, state, losses = saved

    answers = gang(where, tmp_path / "meeting", 2, "restore", "show", "train")

    assert [one[0] for one in answers] == [[5, {"rank": rank}, 2] for rank in range(2)]
    assert answers[0][1:] == answers[1][1:] == [state, losses]


def test_another_number_of_ranks_has_the_same_state(saved: tuple[Path, Any, Any], tmp_path: Path) -> None:
    where, state, _ = saved

    answers = gang(where, tmp_path / "meeting", 3, "restore", "show")

    assert [one[1] for one in answers] == [state] * 3
    assert answers[2][0] == [5, {}, 2]


def test_one_process_has_the_whole_state(saved: tuple[Path, Any, Any]) -> None:
    where, state, _ = saved

    answers = gang(where, Path("alone"), 1, "restore", "show")

    assert answers == [[[5, {"rank": 0}, 2], state]]


def test_what_one_process_saved_can_be_spread(tmp_path: Path) -> None:
    ((_, state),) = gang(tmp_path / "kept", Path("alone"), 1, "train", "save", "show")

    answers = gang(tmp_path / "kept", tmp_path / "meeting", 2, "restore", "show")

    assert [one[1] for one in answers] == [state] * 2


def test_copies_are_written_once(tmp_path: Path) -> None:
    answers = gang(tmp_path / "kept", tmp_path / "meeting", 4, "hybrid", "train", "save", "show")

    folder = tmp_path / "kept" / "step-000000005"
    sheets = [json.loads((folder / f"rank-{rank}.json").read_bytes())["content"] for rank in range(4)]
    assert [len(sheet["chunks"]) for sheet in sheets] == [9, 9, 0, 0]
    ((_, state),) = gang(tmp_path / "kept", Path("alone"), 1, "restore", "show")
    assert state == answers[0][1]
