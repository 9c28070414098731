"""Is the auditor of gangs that were given up strict: no echo and no progress may pass for a repetition."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.model.decisions import Decision
from bireme.model.job import Restart, RestartScope
from bireme.model.replicas import Observation, Replica, Told
from bireme.model.status import Status
from tests.simulation.trials import Trials
from tests.unit.core.world import crashed, evicted, workers

GANG = workers(2, Restart.NEVER, unit=RestartScope.GANG)
VALUE = Told("ValueError", "no", "train.py:3")
SYNTAX = Told("SyntaxError", "invalid syntax")


def _lost(trials: Trials, attempt: int, *seen: Replica, crash: bool = True) -> bool:
    """One look at which an attempt is lost; whether the gang may be given up then."""
    before = Status(attempt=attempt, crashes=attempt, evictions=attempt)
    counted = replace(before, crashes=attempt + crash, evictions=attempt + (not crash))
    after = Decision(replace(counted, attempt=attempt + 1))
    trials.note(before, after, Observation(seen), GANG, 10.0 * attempt, is_steady=False)
    return trials.is_hopeless


def _fell(told: Told, attempt: int) -> Replica:
    return replace(crashed("worker-0", attempt=attempt), told=told)


def test_the_echo_of_an_eviction_is_not_the_first_of_two() -> None:
    trials = Trials()

    assert not _lost(trials, 0, evicted("worker-1"), _fell(VALUE, 0), crash=False)
    assert not _lost(trials, 1, _fell(VALUE, 1))
    assert _lost(trials, 2, _fell(VALUE, 2))


def test_an_attempt_that_got_further_is_not_the_second_of_two() -> None:
    trials = Trials()

    assert not _lost(trials, 0, _fell(replace(VALUE, step=5), 0))
    assert not _lost(trials, 1, _fell(replace(VALUE, step=9), 1))
    assert _lost(trials, 2, _fell(replace(VALUE, step=9), 2))


def test_an_error_that_cannot_change_is_enough_before_the_first_step_of_the_job_alone() -> None:
    trials = Trials()

    assert _lost(trials, 0, _fell(SYNTAX, 0))
    assert not _lost(trials, 1, _fell(replace(VALUE, step=5), 1))
    assert not _lost(trials, 2, _fell(SYNTAX, 2))
