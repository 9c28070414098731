"""batch/v1 Job: how many run at a time, which come next, and when it is complete."""

from __future__ import annotations

import pytest
from tests.unit.build import declared, environment, job, place, role, tally

from bireme.kinds import batch
from bireme.kinds.contract import Failed, Running, Succeeded, Tally, Undecided, Verdict
from bireme.model.job import Job, Restart, RunPolicy
from bireme.model.status import Counts


def pods(
    parallelism: int | None = None,
    completions: int | None = None,
    mode: str = "",
    restart: Restart = Restart.RECREATE,
    policy: RunPolicy | None = None,
) -> Job:
    written = {"parallelism": parallelism, "completions": completions, "completionMode": mode}
    options = {name: value for name, value in written.items() if value not in (None, "")}
    return job("Job", role("Pod", restart=restart), name="prep", policy=policy, options=options)


@pytest.mark.parametrize(
    ("parallelism", "completions", "meant", "replicas"),
    [
        (None, None, (1, 1), 1),
        (None, 5, (1, 5), 5),
        (3, None, (3, None), 3),
        (2, 5, (2, 5), 5),
        (0, 5, (0, 5), 5),
        (2, 0, (2, 0), 0),
    ],
)
def test_completions_are_the_replicas_and_without_them_parallelism(
    parallelism: int | None, completions: int | None, meant: tuple[int, int | None], replicas: int
) -> None:
    given = pods(parallelism, completions)

    chosen = batch.options(given)

    assert (chosen.parallelism, chosen.completions) == meant
    assert declared(given, "pod").replicas == replicas


def test_six_crashes_are_forgiven_unless_the_job_says_otherwise() -> None:
    assert pods().policy.backoff_limit == 6
    assert pods(policy=RunPolicy(backoff_limit=0)).policy.backoff_limit == 0


def test_a_pod_that_is_never_restarted_is_replaced() -> None:
    assert declared(pods(restart=Restart.NEVER), "pod").restart is Restart.RECREATE
    assert declared(pods(restart=Restart.ON_FAILURE), "pod").restart is Restart.ON_FAILURE


def test_defaults_applied_twice_change_nothing() -> None:
    given = pods(2, 5, "Indexed", restart=Restart.NEVER)

    assert batch.KIND.defaults(given) == given


# Who should exist.


def names(given: Job, *done: str) -> list[str]:
    return [one.name for one in batch.KIND.wanted(given, frozenset(done))]


@pytest.mark.parametrize(
    ("done", "wanted"),
    [
        ([], ["prep-0", "prep-1"]),
        (["prep-1"], ["prep-1", "prep-0", "prep-2"]),
        (["prep-0", "prep-1"], ["prep-0", "prep-1", "prep-2", "prep-3"]),
        (["prep-0", "prep-1", "prep-3"], ["prep-0", "prep-1", "prep-3", "prep-2", "prep-4"]),
        (["prep-0", "prep-1", "prep-2", "prep-3"], ["prep-0", "prep-1", "prep-2", "prep-3", "prep-4"]),
    ],
)
def test_those_that_are_done_and_the_next_ones_as_many_as_may_run(done: list[str], wanted: list[str]) -> None:
    assert names(pods(2, 5), *done) == wanted


def test_no_parallelism_means_a_pause() -> None:
    assert names(pods(0, 5), "prep-0") == ["prep-0"]


def test_more_parallelism_than_completions_runs_no_more_than_those() -> None:
    assert names(pods(9, 2)) == ["prep-0", "prep-1"]


def test_names_that_were_scaled_away_are_forgotten() -> None:
    assert names(pods(1, 2), "prep-0", "prep-7") == ["prep-0", "prep-1"]


def test_a_job_of_many_completions_is_not_walked_to_its_end() -> None:
    assert names(pods(2, 10**12), "prep-0") == ["prep-0", "prep-1", "prep-2"]


# Environment.


def test_an_indexed_pod_knows_its_number() -> None:
    assert environment(place(pods(2, 4, "Indexed"), "pod", 3)) == ["JOB_COMPLETION_INDEX=3"]


def test_other_pods_are_told_nothing() -> None:
    assert environment(place(pods(2, 4), "pod", 3)) == []
    assert environment(place(pods(2, 4, "NonIndexed"), "pod", 3)) == []


# Outcome.

RUNNING = Running("Job default/prep is running.")
COMPLETED = Succeeded("Job default/prep successfully completed.")
QUEUE = pods(parallelism=3)


@pytest.mark.parametrize(
    ("given", "seen", "verdict"),
    [
        (pods(2, 3), tally(), Undecided()),
        (pods(2, 3), tally(pod=Counts(active=2)), RUNNING),
        (pods(2, 3), tally(pod=Counts(active=1, succeeded=2)), RUNNING),
        (pods(2, 3), tally(pod=Counts(succeeded=2)), Undecided()),
        (pods(2, 3), tally(pod=Counts(succeeded=3)), COMPLETED),
        (pods(2, 0), tally(), COMPLETED),
        (
            pods(2, 3),
            tally(pod=Counts(active=1, failed=1)),
            Failed("Job prep is failed because 1 Pod replica(s) failed."),
        ),
        (QUEUE, tally(), Undecided()),
        (QUEUE, tally(pod=Counts(active=3)), RUNNING),
        (QUEUE, tally(pod=Counts(active=2, succeeded=1)), RUNNING),
        (QUEUE, tally(pending=("prep-2",), pod=Counts(succeeded=2)), Undecided()),
        (QUEUE, tally(pod=Counts(succeeded=1)), COMPLETED),
        (QUEUE, tally(pod=Counts(succeeded=3)), COMPLETED),
        (QUEUE, tally(pod=Counts(failed=1)), Failed("Job prep is failed because 1 Pod replica(s) failed.")),
    ],
)
def test_outcome(given: Job, seen: Tally, verdict: Verdict) -> None:
    assert batch.KIND.outcome(given, seen) == verdict


# Problems.


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (pods(2, 5, "Indexed"), []),
        (pods(0, 0), []),
        (
            pods(-1, -2),
            [
                ("spec.parallelism", "Invalid value: -1: must be greater than or equal to 0"),
                ("spec.completions", "Invalid value: -2: must be greater than or equal to 0"),
            ],
        ),
        (
            pods(parallelism=2, mode="Indexed"),
            [("spec.completions", "Required value: when completion mode is Indexed")],
        ),
        (
            pods(restart=Restart.ALWAYS),
            [
                (
                    "spec.template.spec.restartPolicy",
                    'Unsupported value: "Always": supported values: "OnFailure", "Never"',
                )
            ],
        ),
    ],
)
def test_problems(given: Job, problems: list[tuple[str, str]]) -> None:
    assert [(one.field, one.text) for one in batch.KIND.validate(given)] == problems


def test_the_first_pod_leads() -> None:
    given = pods(2, 2)

    assert [batch.KIND.is_leader(given, declared(given, "pod"), index) for index in range(2)] == [True, False]
