"""Nothing wrong is ever restored, whatever happens to the files and to those who write them.

`make soak` does ten times as much (tests/soak/test_checkpoint_kills.py).
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.storage import checkpoint_format
from tests.local import checkpoint_faults

ROUNDS = int(os.environ.get("BIREME_SOAK_ROUNDS", "20"))
FILES = ["checkpoint.json", "rank-0.bin", "rank-0.json", "rank-1.bin", "rank-1.json"]


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    checkpoint_faults.two_checkpoints(folder)
    assert checkpoint_faults.restored(folder) == 2
    return folder


@pytest.mark.parametrize("file", FILES)
def test_a_file_cut_at_every_block_boundary_is_recognised(where: Path, file: str) -> None:
    path = where / checkpoint_format.name_of(2) / file
    whole = path.read_bytes()

    for place in checkpoint_faults.cuts(path):
        path.write_bytes(whole[:place])
        heard: list[str] = []

        assert checkpoint_faults.restored(where, heard) == 1
        assert f"checkpoint step-000000002 is torn and skipped: {file}" in heard[0]

    path.write_bytes(whole)
    assert checkpoint_faults.restored(where) == 2


@pytest.mark.parametrize("file", FILES)
def test_flipped_bits_are_recognised(where: Path, file: str) -> None:
    path = where / checkpoint_format.name_of(2) / file
    whole = path.read_bytes()
    chance = random.Random(file)
    places = [0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(ROUNDS // 4))]

    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        heard: list[str] = []

        assert checkpoint_faults.restored(where, heard) == 1
        assert f"checkpoint step-000000002 is torn and skipped: {file}" in heard[0]

    path.write_bytes(whole)


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_missing_or_another_s_is_recognised(where: Path, file: str) -> None:
    path = where / checkpoint_format.name_of(2) / file
    whole = path.read_bytes()

    path.unlink()
    assert checkpoint_faults.restored(where) == 1
    checkpoint_faults.mixed(where, file)
    assert checkpoint_faults.restored(where) == 1

    path.write_bytes(whole)
    assert checkpoint_faults.restored(where) == 2


def test_when_all_are_torn_training_begins_anew_and_each_is_named(tmp_path: Path) -> None:
    checkpoint_faults.two_checkpoints(tmp_path)
    for step in (1, 2):
        os.truncate(tmp_path / checkpoint_format.name_of(step) / "rank-0.bin", 9)
    heard: list[str] = []

    assert checkpoint_faults.restored(tmp_path, heard) == 0

    assert [one for one in heard if "step-000000001" in one]
    assert [one for one in heard if "step-000000002" in one]


def test_files_that_may_not_grow_beyond_any_size_cost_at_most_their_own_checkpoint(tmp_path: Path) -> None:
    chance = random.Random(5)
    limits = [chance.randrange(checkpoint_faults.SIZE + 200_000) for _ in range(ROUNDS)]

    results = list(checkpoint_faults.full_at(tmp_path, limits))

    assert len(results) == ROUNDS
    last = 1
    for limit, (step, found, is_right) in zip(limits, results, strict=True):
        last = step if limit > checkpoint_faults.SIZE + 80_000 else last
        assert (found, is_right) == (last, True)


def test_ranks_killed_at_any_instant_of_a_save_leave_the_newest_good_one(tmp_path: Path) -> None:
    chance = random.Random(11)
    for number in range(ROUNDS):
        saved, found = checkpoint_faults.killed_while_saving(tmp_path, chance)

        # What was committed may not have been said any more.
        assert saved <= found <= saved + 1, f"round {number}"
