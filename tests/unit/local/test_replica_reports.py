"""How far an attempt came is read when it fails, whoever ended before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme.backends.local.replica_reports import Telling
from bireme.model.replicas import Replica, ReplicaPhase
from bireme.runs.metrics import metric_reader
from bireme.runtime.records.recorder import Recorder


def _replica(index: int, phase: ReplicaPhase) -> Replica:
    return Replica(f"job-worker-{index}", "worker", index, 0, f"uid-{index}", phase)


def test_a_replica_that_ended_well_early_does_not_fix_how_far_the_attempt_came(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / metric_reader.FOLDER), 0, 0, pytest.fail)
    telling = Telling(tmp_path)
    recorder.scalars(3, {"loss": 1.0})
    early = telling.add(_replica(1, ReplicaPhase.SUCCEEDED), 0.0)
    recorder.scalars(5000, {"loss": 0.1})

    late = telling.add(_replica(0, ReplicaPhase.FAILED), 0.0)

    assert (early.told.step, late.told.step) == (3, 5000)
    recorder.close()
