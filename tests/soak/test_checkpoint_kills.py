"""Is nothing wrong ever restored after hundreds of kills in the middle of saving."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.local import checkpoint_faults

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("BIREME_SOAK_ROUNDS", "200"))


def test_ranks_killed_at_any_instant_of_a_save_leave_the_newest_good_one(tmp_path: Path) -> None:
    chance = random.Random()
    went_on = 0
    for number in range(ROUNDS):
        saved, found = checkpoint_faults.killed_while_saving(tmp_path, chance)
        went_on += found > saved

        assert saved <= found <= saved + 1, f"round {number}"
    print(f"\n{ROUNDS} kills, 0 wrong restores; in {went_on} the commit was made and not yet heard of")


def test_files_that_may_not_grow_beyond_any_size_cost_at_most_their_own_checkpoint(tmp_path: Path) -> None:
    limits = [random.randrange(checkpoint_faults.SIZE + 200_000) for _ in range(ROUNDS)]

    results = list(checkpoint_faults.full_at(tmp_path, limits))

    assert len(results) == ROUNDS
    assert all(is_right for _, _, is_right in results)
