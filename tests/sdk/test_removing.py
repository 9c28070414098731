"""A job that goes on again is never deleted as one that has ended."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from bireme import errors
from bireme.core.machine.retention import EndedRun
from bireme.model.status import ConditionType
from bireme.runner import control
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Ledger
from bireme.runs.run_files import Desired
from bireme.runs.storage.locks import FileLock
from bireme.sdk.local import prune
from bireme.sdk.local.local_backend import LocalJob
from tests.unit.runs.run_fixtures import ended, make_run


def _failed(home: Path) -> RunDirectory:
    run, lock = make_run(home)
    run.write_status(ended(ConditionType.FAILED))
    lock.close()
    return run


def _call_back(run: RunDirectory) -> None:
    """As `bireme resume` does, before a runner has heard of it."""

    def resumed(desired: Desired) -> Desired:
        return replace(desired, job=replace(desired.job, policy=replace(desired.job.policy, resumes=1)))

    run.edit(resumed)


def test_a_failed_job_that_was_just_resumed_is_not_deleted_with_those_that_ended(tmp_path: Path) -> None:
    run = _failed(tmp_path)
    (seen,) = prune.ended(tmp_path)

    _call_back(run)

    assert prune.ended(tmp_path) == ()
    assert prune.removed(tmp_path, (seen,)) == ()
    assert run.exists()


def test_a_failed_job_that_was_just_resumed_is_not_deleted_by_its_name(tmp_path: Path) -> None:
    run = _failed(tmp_path)
    _call_back(run)

    with pytest.raises(errors.BadInput, match="mnist runs again: it was resumed a moment ago"):
        LocalJob(run).remove()

    assert run.exists()


class _ResumedMeanwhile(RunDirectory):
    """A run that another command resumes after this one has seen that it failed."""

    def hold(self) -> FileLock | None:
        _call_back(RunDirectory(self.home, self.id))
        return super().hold()


def test_a_job_that_is_resumed_while_it_is_removed_is_kept(tmp_path: Path) -> None:
    run = _failed(tmp_path)

    with pytest.raises(errors.BadInput, match="it was resumed a moment ago"):
        LocalJob(_ResumedMeanwhile(tmp_path, run.id)).remove()

    assert run.exists()
    assert not run.is_held()


class _TakenMeanwhile(RunDirectory):
    """A run whose new runner takes it after this command has seen that nobody had it."""

    lock: FileLock | None = None

    def is_held(self) -> bool:
        found = super().is_held()
        if self.lock is None:
            _call_back(self)
            self.lock = super().hold()
        return found


def test_a_job_whose_runner_starts_while_it_is_removed_is_kept(tmp_path: Path) -> None:
    run = _TakenMeanwhile(tmp_path, _failed(tmp_path).id)

    with pytest.raises(errors.BadInput, match="it was resumed a moment ago"):
        LocalJob(run).remove()

    assert run.exists()


def test_what_a_resumed_job_was_started_from_is_needed(tmp_path: Path) -> None:
    source, lock = make_run(tmp_path, "source")
    source.write_status(ended(ConditionType.SUCCEEDED))
    lock.close()
    run = _failed(tmp_path)
    (run.path / "context.json").write_text(
        (run.path / "context.json").read_text().replace("hush", f"{source.path}/checkpoints")
    )
    _call_back(run)

    found: tuple[EndedRun, ...] = prune.ended(tmp_path)
    assert [(one.id, one.is_needed) for one in found] == [("source#1", True)]


def test_a_job_that_is_resumed_at_the_last_moment_is_kept(tmp_path: Path) -> None:
    run = _failed(tmp_path)

    def resumed_meanwhile() -> bool:
        _call_back(run)
        return control.goes_on(run)

    assert not Ledger(tmp_path).remove(run.id, resumed_meanwhile)
    assert run.exists()
