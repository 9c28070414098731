"""Does each process keep and resume its own, over many rounds of kills at random instants."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.local import checkpoint_contention, s3_server
from tests.local.conftest import s3_endpoint as s3_endpoint
from tests.local.conftest import s3_prefix as s3_prefix

pytestmark = pytest.mark.soak

ROUNDS = int(os.environ.get("BIREME_SOAK_ROUNDS", "20"))


@s3_server.needed
def test_two_live_runs_on_one_prefix_keep_and_resume_their_own(s3_prefix: str) -> None:
    checkpoint_contention.contest(s3_prefix, ROUNDS, random.Random())


def test_two_live_runs_on_a_folder_without_locks_keep_and_resume_their_own(tmp_path: Path) -> None:
    checkpoint_contention.contest(str(tmp_path), ROUNDS, random.Random())


def test_a_zombie_of_an_old_attempt_neither_commits_nor_stops_the_new_one(tmp_path: Path) -> None:
    checkpoint_contention.zombies(str(tmp_path), ROUNDS, random.Random())


@s3_server.needed
def test_a_zombie_on_a_prefix_neither_commits_nor_stops_the_new_one(s3_prefix: str) -> None:
    checkpoint_contention.zombies(s3_prefix, ROUNDS, random.Random())
