"""Does each process keep and resume its own where several want to write into one place.

`make soak` does ten times as much (tests/soak/test_checkpoint_contending.py).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.local import contending, s3_server

pytestmark = pytest.mark.slow
ROUNDS = 2


@s3_server.needed
def test_two_live_runs_on_one_prefix_keep_and_resume_their_own(s3_prefix: str) -> None:
    contending.contest(s3_prefix, ROUNDS, random.Random(3))


def test_two_live_runs_on_a_folder_without_locks_keep_and_resume_their_own(tmp_path: Path) -> None:
    contending.contest(str(tmp_path), ROUNDS, random.Random(4))


def test_a_zombie_of_an_old_attempt_neither_commits_nor_stops_the_new_one(tmp_path: Path) -> None:
    contending.zombies(str(tmp_path), ROUNDS, random.Random(5))
