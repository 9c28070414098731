"""What nvidia-smi prints is read as ids, and as those that somebody uses."""

from __future__ import annotations

from bireme.backends.local.preflight.gpus import Gpus, parse

LISTED = "0, GPU-aaaa\n1, GPU-bbbb\n"


def test_gpus_are_known_by_their_index_and_busy_ones_by_their_uuid() -> None:
    assert parse(LISTED, "GPU-bbbb, 4242\nGPU-bbbb, 4243\n") == Gpus(("0", "1"), frozenset({"1"}))


def test_a_machine_without_gpus_has_none() -> None:
    assert parse("", "") == Gpus()
    assert parse("No devices were found\n", "") == Gpus()
