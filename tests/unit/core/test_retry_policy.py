"""Another attempt is made where it may help: what gangs tell of their errors, and how far they get."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from bireme import kinds
from bireme.model.job import Job, Restart, RestartScope, RunPolicy
from bireme.model.replicas import Replica, Told
from bireme.model.status import AttemptProgress, Blame, Phase, Status
from tests.unit.core.world import World, at_work, crashed, evicted, running, succeeded, workers

SYNTAX = Told("SyntaxError", "invalid syntax")
MISSING = Told("ModuleNotFoundError", "No module named 'flash_attn'", "train.py:1")
VALUE = Told("ValueError", "no", "train.py:3", time=5.0)
PEER = Told("RuntimeError", "Connection closed by peer", "train.py:9", time=4.0)


def gang(limit: int | None = 3) -> Job:
    return workers(2, Restart.NEVER, unit=RestartScope.GANG, policy=RunPolicy(backoff_limit=limit))


def fell(name: str, told: Told, attempt: int = 0, code: int = 1) -> Replica:
    return replace(crashed(name, code, attempt=attempt), told=told)


def look(world: World, lost: Replica, at: float) -> None:
    peer = "worker-0" if lost.index else "worker-1"
    world.look(lost, running(peer, attempt=lost.attempt), at=at)


def lose(world: World, lost: Replica, at: float = 10.0) -> None:
    """The attempt is lost by one of its two, and the next one is at work if there is one."""
    look(world, lost, at=at)
    world.look(at=at)
    attempt = world.status.attempt
    world.look(running("worker-0", attempt=attempt), running("worker-1", attempt=attempt), at=at)


def test_an_error_that_cannot_change_fails_the_gang_at_once() -> None:
    world = at_work(gang())

    world.look(fell("worker-1", SYNTAX), running("worker-0"), at=10.0)

    assert (world.phase(), world.status.attempt, world.status.crashes) == (Phase.FAILED, 0, 1)
    assert "another attempt would not change: mnist-worker-1: SyntaxError" in (
        world.status.conditions[-1].message
    )


def test_without_a_limit_it_fails_at_once_too() -> None:
    world = at_work(gang(limit=None))

    world.look(fell("worker-1", SYNTAX), running("worker-0"), at=10.0)

    assert world.phase() is Phase.FAILED


def test_replicas_that_are_restarted_one_by_one_keep_their_policy() -> None:
    world = at_work(workers(2, Restart.ON_FAILURE, policy=RunPolicy(backoff_limit=3)))

    world.look(fell("worker-1", SYNTAX), running("worker-0"), at=10.0)

    assert world.phase() is Phase.RESTARTING


def test_after_the_first_step_it_is_tried_again_once() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", replace(SYNTAX, step=7)))
    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 1)

    look(world, fell("worker-1", replace(SYNTAX, step=7), attempt=1), at=20.0)

    assert (world.phase(), world.status.crashes) == (Phase.FAILED, 2)


def test_the_same_error_twice_without_progress_is_enough() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", VALUE))
    assert world.phase() is Phase.RUNNING

    look(world, fell("worker-0", replace(VALUE, time=15.0), attempt=1), at=20.0)

    assert world.phase() is Phase.FAILED
    assert "failed twice in the same way" in world.status.conditions[-1].message


def test_an_eviction_between_two_equal_errors_does_not_make_them_differ() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", VALUE))
    lose(world, evicted("worker-1", attempt=1), at=15.0)

    look(world, fell("worker-1", VALUE, attempt=2), at=20.0)

    assert (world.phase(), world.status.evictions) == (Phase.FAILED, 1)


def test_another_error_is_tried_again_up_to_the_limit() -> None:
    world = at_work(gang(limit=2))
    for attempt in range(3):
        told = replace(VALUE, message=f"attempt {attempt}")
        lose(world, fell("worker-1", told, attempt=attempt), at=10.0 + 50 * attempt)

    assert (world.phase(), world.status.crashes) == (Phase.FAILED, 3)
    assert "backoff limit" in world.status.conditions[-1].message


def test_a_kill_tells_nothing_and_is_tried_again() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", Told(), code=137))
    lose(world, fell("worker-1", Told(), attempt=1, code=137), at=20.0)

    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 2)


def test_a_long_time_without_failure_is_progress_where_nobody_tells_of_steps() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", VALUE))

    lose(world, fell("worker-1", VALUE, attempt=1), at=700.0)

    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 2)


def test_progress_refills_the_budget_and_resets_the_back_off() -> None:
    world = at_work(gang(limit=1))
    for attempt in range(5):
        told = replace(VALUE, step=10 * (attempt + 1))
        look(world, fell("worker-1", told, attempt=attempt), at=10.0 + attempt)
        retry = world.status.retries[""]
        assert (retry.failures, retry.not_before) == (1, 10.0 + attempt)
        world.look(at=10.0 + attempt)
        world.look(running("worker-0", attempt=attempt + 1), running("worker-1", attempt=attempt + 1))

    assert world.status.progress == AttemptProgress(step=50, crashes=4)
    assert (world.phase(), world.status.crashes) == (Phase.RUNNING, 5)


def test_a_new_checkpoint_is_progress_although_fewer_steps_were_made() -> None:
    world = at_work(gang(limit=2))
    lose(world, fell("worker-1", Told(step=50)))
    lose(world, fell("worker-1", Told(step=45, saved=40), attempt=1), at=20.0)
    lose(world, fell("worker-1", Told(step=48, saved=40), attempt=2), at=30.0)

    assert world.status.progress == AttemptProgress(step=50, saved=40, crashes=1)
    assert world.phase() is Phase.RUNNING
    look(world, fell("worker-1", Told(step=48, saved=40), attempt=3), at=50.0)
    assert world.phase() is Phase.FAILED


def test_evictions_are_forgiven_by_progress_too() -> None:
    job = gang()
    world = at_work(replace(job, policy=replace(job.policy, eviction_limit=1)))
    for attempt in range(4):
        lost = replace(evicted("worker-1", attempt=attempt), told=Told(saved=attempt))
        lose(world, lost, at=10.0 + attempt)

    assert (world.phase(), world.status.evictions) == (Phase.RUNNING, 4)


def test_who_raised_an_error_is_to_blame_and_not_whom_it_took_along() -> None:
    world = at_work(gang())

    world.look(fell("worker-0", PEER), fell("worker-1", VALUE), at=10.0)

    blame = world.status.blame
    assert blame is not None
    assert (blame.replica, blame.error, blame.exit_code) == ("mnist-worker-1", "ValueError: no", 1)


def test_a_status_keeps_the_first_300_characters_of_an_error() -> None:
    world = at_work(gang())

    world.look(
        replace(fell("worker-1", Told("E", "e" * 400)), message="m" * 400), running("worker-0"), at=10.0
    )

    blame = world.status.blame
    assert blame is not None
    assert (blame.message, blame.error) == ("m" * 300, "E: " + "e" * 297)


def test_a_job_that_ran_out_of_time_has_no_replica_to_blame() -> None:
    job = gang()
    world = at_work(replace(job, policy=replace(job.policy, deadline=5.0)))

    world.look(fell("worker-1", VALUE), running("worker-0"), at=10.0)

    assert world.phase() is Phase.FAILED
    assert world.status.blame is None


def test_a_success_beside_an_error_that_cannot_change_is_a_success() -> None:
    world = World(workers(1, unit=RestartScope.GANG))
    world.look(running("worker-0"))

    world.look(succeeded("worker-0"), fell("worker-1", SYNTAX), at=10.0)

    assert world.phase() is Phase.SUCCEEDED
    assert world.status.blame is None


def test_an_error_of_any_length_keeps_the_status_small() -> None:
    world = at_work(gang())

    world.look(fell("worker-1", Told("ValueError", "x" * 100_000, "train.py:3")), at=10.0)

    assert len(msgspec.json.encode(world.status)) < 4000


def test_a_status_of_an_earlier_version_is_understood() -> None:
    old = msgspec.json.decode(b'{"attempt": 2, "crashes": 2}', type=Status)

    assert (old.blame, old.progress) == (None, AttemptProgress())
    assert msgspec.json.decode(msgspec.json.encode(old), type=Status) == old
    assert Blame("a", "worker", 0, 0).signature == ""


def test_the_echo_of_an_eviction_is_not_the_first_of_two_equal_errors() -> None:
    world = at_work(gang())
    world.look(evicted("worker-1"), fell("worker-0", VALUE), at=10.0)
    world.look(at=10.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=10.0)
    assert (world.status.crashes, world.status.evictions) == (0, 1)

    look(world, fell("worker-0", VALUE, attempt=1), at=20.0)

    assert (world.phase(), world.status.crashes) == (Phase.RESTARTING, 1)


def test_an_eviction_with_its_echo_between_two_equal_errors_does_not_make_them_differ() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", VALUE))
    world.look(evicted("worker-1", attempt=1), fell("worker-0", PEER, attempt=1), at=15.0)
    world.look(at=15.0)
    world.look(running("worker-0", attempt=2), running("worker-1", attempt=2), at=15.0)

    look(world, fell("worker-1", VALUE, attempt=2), at=20.0)

    assert world.phase() is Phase.FAILED


def test_too_many_evictions_are_not_blamed_on_their_echo() -> None:
    job = gang()
    world = at_work(replace(job, policy=replace(job.policy, eviction_limit=0)))

    world.look(evicted("worker-1"), fell("worker-0", VALUE), at=10.0)

    assert (world.phase(), world.status.blame) == (Phase.FAILED, None)


def test_a_job_that_has_trained_is_not_ended_by_one_module_that_is_missing() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", replace(PEER, step=500_000, saved=499_000)))

    look(world, fell("worker-1", MISSING, attempt=1), at=20.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 2)


def test_a_rank_that_has_run_for_long_had_begun_although_nobody_tells_of_steps() -> None:
    world = at_work(gang())

    look(world, fell("worker-1", MISSING), at=2000.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 1)


def test_a_job_of_which_an_attempt_ran_for_long_is_not_ended_by_one_module_that_is_missing() -> None:
    world = at_work(gang())
    lose(world, fell("worker-1", PEER), at=2000.0)

    lose(world, fell("worker-1", MISSING, attempt=1), at=2010.0)
    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 2)

    look(world, fell("worker-1", MISSING, attempt=2), at=2020.0)
    assert world.phase() is Phase.FAILED


def test_a_job_that_ran_for_long_before_it_was_put_aside_has_begun() -> None:
    world = at_work(gang())
    world.suspend()
    world.look(running("worker-0"), running("worker-1"), at=2000.0)
    world.look(at=2001.0)
    world.suspend(False)
    world.look(at=2002.0)
    world.look(running("worker-0", attempt=1), running("worker-1", attempt=1), at=2003.0)

    look(world, fell("worker-1", MISSING, attempt=1), at=2004.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 2)


@pytest.mark.parametrize("code", [137, 139])
def test_the_survivors_echo_does_not_take_the_blame_from_who_was_killed(code: int) -> None:
    world = at_work(gang())
    for attempt in range(2):
        killed = fell("worker-1", Told(), attempt=attempt, code=code)
        at = 10.0 + 10 * attempt
        world.look(killed, fell("worker-0", VALUE, attempt=attempt), at=at)
        assert world.status.blame is not None
        assert world.status.blame.replica == "mnist-worker-1"
        world.look(at=at)
        world.look(running("worker-0", attempt=attempt + 1), running("worker-1", attempt=attempt + 1), at=at)

    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 2)


def test_who_ran_out_of_memory_is_to_blame_whatever_it_told() -> None:
    world = at_work(gang())

    killed = replace(fell("worker-1", Told(), code=1), reason="OOMKilled")
    world.look(killed, fell("worker-0", VALUE), at=10.0)

    assert world.status.blame is not None
    assert world.status.blame.replica == "mnist-worker-1"


def test_who_ended_without_a_word_may_be_why_the_others_failed_the_same_way_again() -> None:
    world = at_work(gang())
    lose(world, fell("worker-0", VALUE))

    world.look(fell("worker-0", VALUE, attempt=1), fell("worker-1", Told(), attempt=1, code=134), at=20.0)

    assert (world.phase(), world.status.attempt) == (Phase.RESTARTING, 2)


def test_who_does_not_train_cannot_know_that_the_others_got_no_further() -> None:
    world = at_work(kinds.typed(replace(gang(), kind="TFJob", options=None)))
    for attempt in range(2):
        lost = replace(fell("worker-1", VALUE, attempt=attempt), role="evaluator")
        lose(world, lost, at=10.0 + 10 * attempt)

    assert (world.phase(), world.status.attempt) == (Phase.RUNNING, 2)


def test_what_a_script_says_cannot_write_into_the_terminal_of_its_reader() -> None:
    world = at_work(gang())

    told = Told("SyntaxError", "\x1b]0;owned\x07\x1b[2J")
    decision = world.look(fell("worker-1", told), running("worker-0"), at=10.0)

    said = [one.message for one in world.status.conditions] + [one.message for one in decision.events]
    assert all("\x1b" not in one and "\x07" not in one for one in said)
    assert any("owned" in one for one in said)
