"""Whatever others wrote is read or refused: no traceback, no write outside, bounded time and memory."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import messages, ownership, reported, runfiles
from tests.fuzz.harness import Target, hunt

INPUTS = 300
SOAK_INPUTS = int(os.environ.get("BIREME_FUZZ_INPUTS", "100000"))
TRACED = 30
"""Inputs whose memory is measured: samples and corpus come first."""
SEED = "bireme"
TARGETS = (*runfiles.TARGETS, *reported.TARGETS, *ownership.TARGETS, *messages.TARGETS)


@pytest.mark.parametrize("make", TARGETS, ids=lambda make: make.__name__)
def test_hostile_input_is_read_or_refused(make: Callable[[Path], Target], tmp_path: Path) -> None:
    result = hunt(make(tmp_path), SEED, INPUTS, tmp_path, traced=TRACED)

    assert not result.findings, "\n".join(map(str, result.findings))


@pytest.mark.soak
@pytest.mark.parametrize("make", TARGETS, ids=lambda make: make.__name__)
def test_hostile_input_is_read_or_refused_for_long(make: Callable[[Path], Target], tmp_path: Path) -> None:
    seed = os.environ.get("BIREME_FUZZ_SEED") or str(random.randrange(10**9))
    target = make(tmp_path)

    result = hunt(target, seed, SOAK_INPUTS, tmp_path, traced=TRACED)

    print(
        f"\n{target.name}: {result.inputs} inputs in {result.seconds:.0f} s, {result.refused} refused; "
        f"again with BIREME_FUZZ_SEED={seed}"
    )
    assert not result.findings, "\n".join(map(str, result.findings))
