"""Each process keeps and resumes its own where several want to write into one folder.

`make soak` does ten times as much (tests/soak/test_checkpoint_contention_soak.py).
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.local import checkpoint_contention, s3_server

pytestmark = pytest.mark.slow
ROUNDS = 2


@s3_server.needed
def test_two_live_runs_on_one_prefix_keep_and_resume_their_own(s3_prefix: str) -> None:
    checkpoint_contention.contest(s3_prefix, ROUNDS, random.Random(3))


def test_two_live_runs_on_a_folder_without_locks_keep_and_resume_their_own(tmp_path: Path) -> None:
    checkpoint_contention.contest(str(tmp_path), ROUNDS, random.Random(4))


def test_a_zombie_of_an_old_attempt_neither_commits_nor_stops_the_new_one(tmp_path: Path) -> None:
    checkpoint_contention.zombies(str(tmp_path), ROUNDS, random.Random(5))
