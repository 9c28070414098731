"""What may be deleted: only what has ended, what everybody agrees on, and never a last copy by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bireme.core.machine.retention import EndedRun, Limits, Selection, beyond, exceeded, selected

NOW = 1000.0
RUNS = tuple(EndedRun(f"run-{age}", NOW - age, size=10) for age in (100, 200, 300, 400))


def _ids(runs: tuple[EndedRun, ...]) -> list[str]:
    return [run.id for run in runs]


def test_without_conditions_all_are_selected() -> None:
    assert len(selected(RUNS, Selection(), NOW)) == 4


def test_conditions_have_to_agree() -> None:
    large = (*RUNS[:3], replace(RUNS[3], size=100))

    assert _ids(selected(large, Selection(older=150), NOW)) == ["run-200", "run-300", "run-400"]
    assert _ids(selected(large, Selection(older=150, keep=2), NOW)) == ["run-300", "run-400"]
    assert _ids(selected(large, Selection(older=150, keep=2, larger=50), NOW)) == ["run-400"]


def test_what_an_active_run_was_started_from_stays() -> None:
    needed = tuple(replace(run, is_needed=True) for run in RUNS)

    assert selected(needed, Selection(), NOW) == ()
    assert beyond(needed, Limits(runs=0), NOW) == ()


def test_each_limit_counts_by_itself() -> None:
    assert _ids(beyond(RUNS, Limits(age=350), NOW)) == ["run-400"]
    assert _ids(beyond(RUNS, Limits(runs=3), NOW)) == ["run-400"]
    assert _ids(beyond(RUNS, Limits(size=25), NOW)) == ["run-300", "run-400"]
    assert _ids(beyond(RUNS, Limits(age=350, runs=2), NOW)) == ["run-300", "run-400"]
    assert beyond(RUNS, Limits(), NOW) == ()


def test_only_the_limits_that_removed_something_are_named() -> None:
    limits = Limits(age=350, runs=50, size=10**9)

    assert exceeded(RUNS, limits, NOW) == {"run-400": ("age",)}


_ended = st.builds(
    EndedRun, st.uuids().map(str), st.floats(0, NOW), st.integers(0, 100), st.booleans(), st.booleans()
)
_limits = st.builds(
    Limits,
    st.none() | st.floats(0, NOW),
    st.none() | st.integers(0, 10),
    st.none() | st.integers(0, 500),
)


@given(st.lists(_ended, max_size=12), _limits)
def test_nothing_goes_by_itself_that_has_checkpoints_and_what_stays_keeps_to_the_limits(
    runs: list[EndedRun], limits: Limits
) -> None:
    gone = beyond(runs, limits, NOW)
    free = [run for run in runs if run not in gone and not run.has_checkpoints and not run.is_needed]

    assert not any(run.has_checkpoints or run.is_needed for run in gone)
    assert limits.age is None or all(NOW - run.ended <= limits.age for run in free)
    assert limits.runs is None or len(free) <= limits.runs
    assert limits.size is None or sum(run.size for run in free) <= limits.size
