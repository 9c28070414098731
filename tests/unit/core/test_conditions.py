"""Which rules does a job's list of conditions follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.core import conditions
from bireme.model.status import ConditionType, Status
from tests.unit import build
from tests.unit.core.world import told

JOB = build.job("PyTorchJob")
CREATED, RUNNING, RESTARTING = ConditionType.CREATED, ConditionType.RUNNING, ConditionType.RESTARTING
SUCCEEDED, SUSPENDED, FAILED = ConditionType.SUCCEEDED, ConditionType.SUSPENDED, ConditionType.FAILED


def having(*types: ConditionType, since: float = 0.0) -> Status:
    status = Status()
    for type in types:
        status = conditions.add(status, JOB, type, f"it is {type}", since)
    return status


def test_a_reason_is_the_kind_and_the_type() -> None:
    status = conditions.add(Status(), JOB, RUNNING, "PyTorchJob mnist is running.", 7.0)

    (condition,) = status.conditions
    assert condition.type is RUNNING
    assert condition.status is True
    assert condition.reason == "PyTorchJobRunning"
    assert condition.message == "PyTorchJob mnist is running."
    assert (condition.updated, condition.changed) == (7.0, 7.0)


def test_a_given_reason_is_kept() -> None:
    status = conditions.add(Status(), JOB, FAILED, "it failed", 7.0, reason="BackoffLimitExceeded")

    assert status.conditions[0].reason == "BackoffLimitExceeded"


def test_the_same_type_status_and_reason_again_changes_nothing() -> None:
    before = having(CREATED, RUNNING)

    after = conditions.add(before, JOB, RUNNING, "another message", 9.0)

    assert after is before


def test_a_new_reason_replaces_the_entry_at_the_end_and_keeps_the_time_of_change() -> None:
    before = having(CREATED, SUSPENDED, since=1.0)

    after = conditions.add(before, JOB, CREATED, "created otherwise", 9.0, reason="Otherwise")

    assert told(after) == ["Suspended", "Created"]
    assert after.conditions[-1].message == "created otherwise"
    assert after.conditions[-1].updated == 9.0
    assert after.conditions[-1].changed == 1.0


def test_a_new_status_moves_the_time_of_change() -> None:
    before = having(CREATED, SUSPENDED, since=1.0)

    after = conditions.deny(before, SUSPENDED, "PyTorchJobResumed", "PyTorchJob mnist is resumed.", 9.0)

    newest = after.conditions[-1]
    assert told(after) == ["Created", "-Suspended"]
    assert (newest.reason, newest.message) == ("PyTorchJobResumed", "PyTorchJob mnist is resumed.")
    assert (newest.updated, newest.changed) == (9.0, 9.0)


def test_running_and_restarting_remove_each_other() -> None:
    restarting = conditions.add(having(CREATED, RUNNING), JOB, RESTARTING, "again", 2.0)
    running = conditions.add(restarting, JOB, RUNNING, "up", 3.0)

    assert told(restarting) == ["Created", "Restarting"]
    assert told(running) == ["Created", "Running"]
    assert running.conditions[-1].changed == 3.0


def test_denying_running_does_not_remove_restarting() -> None:
    after = conditions.deny(having(CREATED, RESTARTING), RUNNING, "Why", "not running", 2.0)

    assert told(after) == ["Created", "Restarting", "-Running"]


@pytest.mark.parametrize("end", [SUCCEEDED, FAILED])
def test_an_end_flips_running_in_place_and_keeps_its_reason(end: ConditionType) -> None:
    before = having(CREATED, RUNNING, SUSPENDED, since=1.0)

    after = conditions.add(before, JOB, end, "over", 9.0)

    flipped = after.conditions[1]
    assert told(after) == ["Created", "-Running", "Suspended", end]
    assert (flipped.reason, flipped.message) == ("PyTorchJobRunning", "it is Running")
    assert (flipped.updated, flipped.changed) == (9.0, 9.0)


@pytest.mark.parametrize("end", [SUCCEEDED, FAILED])
def test_an_end_leaves_a_running_that_is_false_already_as_it_is(end: ConditionType) -> None:
    before = conditions.deny_in_place(having(CREATED, RUNNING), RUNNING, "PyTorchJobSuspended", 4.0)

    after = conditions.add(before, JOB, end, "over", 9.0)

    assert told(after) == ["Created", "-Running", end]
    assert after.conditions[1] == before.conditions[1]


def test_an_end_that_is_denied_flips_nothing() -> None:
    after = conditions.deny(having(RUNNING), SUCCEEDED, "Why", "not yet", 2.0)

    assert told(after) == ["Running", "-Succeeded"]


def test_failed_is_final() -> None:
    before = having(CREATED, FAILED)

    assert conditions.add(before, JOB, RUNNING, "up", 9.0) is before
    assert conditions.add(before, JOB, SUCCEEDED, "done", 9.0) is before
    assert conditions.deny(before, FAILED, "Why", "changed my mind", 9.0) is before


def test_denying_in_place_keeps_the_order_and_says_why() -> None:
    before = having(CREATED, RUNNING, SUSPENDED, since=1.0)

    after = conditions.deny_in_place(before, RUNNING, "PyTorchJobSuspended", 9.0)

    flipped = after.conditions[1]
    assert told(after) == ["Created", "-Running", "Suspended"]
    assert flipped.reason == "PyTorchJobSuspended"
    assert (flipped.updated, flipped.changed) == (9.0, 9.0)


def test_denying_in_place_what_is_absent_or_denied_changes_nothing() -> None:
    before = conditions.deny_in_place(having(CREATED, RUNNING), RUNNING, "First", 1.0)

    after = conditions.deny_in_place(before, RUNNING, "Second", 2.0)

    assert after == before
    assert conditions.deny_in_place(having(CREATED), RUNNING, "Why", 1.0) == having(CREATED)


@given(st.lists(st.tuples(st.sampled_from(ConditionType), st.booleans(), st.sampled_from(["A", "B"]))))
def test_laws_of_the_list(changes: list[tuple[ConditionType, bool, str]]) -> None:
    status = Status()
    for now, (type, holds, reason) in enumerate(changes):
        failed_before = status.holds(FAILED)
        before = status
        if holds:
            status = conditions.add(status, JOB, type, "it holds", float(now), reason)
        else:
            status = conditions.deny(status, type, reason, "it does not hold", float(now))

        types = [one.type for one in status.conditions]
        assert len(types) == len(set(types))
        assert not (status.holds(RUNNING) and status.holds(RESTARTING))
        assert not (status.holds(RUNNING) and (status.holds(FAILED)) and not failed_before)
        assert all(one.changed <= one.updated <= now for one in status.conditions)
        if failed_before:
            assert status is before
