"""The first cause is found, not the last echo; and what is not known is not claimed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Loss, ReplicaPhase
from bireme.model.status import Blame, Condition, ConditionType, Status
from bireme.runs.rank_reports import RankReport, ReportedError
from bireme.runs.replica_history import Failure, ReplicaHistory
from bireme.sdk import diagnosis, job_state
from bireme.sdk.diagnosis import Evidence
from bireme.sdk.views import Finding
from tests.unit import build

GANG = build.job(
    "PyTorchJob",
    build.role("Master", 1, build.container("python", "train.py")),
    build.role("Worker", 2, build.container("python", "train.py")),
    unit=RestartScope.GANG,
    torchrun_environment=True,
)
FAILED = Status(
    conditions=(
        Condition(ConditionType.FAILED, True, "PyTorchJobFailed", "it reached its limit", 20.0, 20.0),
    ),
    completed=20.0,
    crashes=1,
)
SUCCEEDED = Status(
    conditions=(Condition(ConditionType.SUCCEEDED, True, "PyTorchJobSucceeded", "done", 20.0, 20.0),),
    completed=20.0,
)

Reports = Mapping[tuple[str, int], RankReport]


def _life(
    short: str, at: float | None = None, code: int = 1, attempt: int = 0, reason: str = "Error"
) -> ReplicaHistory:
    role, index = short.split("-")
    failures = () if at is None else (Failure(at, code, "pytorch", reason),)
    return ReplicaHistory(
        uid=f"{short}/{attempt}",
        replica=f"mnist-{short}",
        role=role,
        index=int(index),
        attempt=attempt,
        began=0.0,
        ran=0.0,
        ended=at,
        exit_code=None if at is None else code,
        failures=failures,
        phase=None if at is None else ReplicaPhase.FAILED,
        reason=reason,
    )


def _report(at: float, what: str = "no") -> RankReport:
    return RankReport(error=ReportedError("ValueError", what, f"Traceback...\nValueError: {what}\n", at))


def _evidence(
    status: Status, *lives: ReplicaHistory, job: Job = GANG, reports: Reports | None = None
) -> Evidence:
    return Evidence(id="mnist", job=job, status=status, host="box", lives=lives, reports=reports or {})


def test_the_earliest_error_counts_although_its_rank_ended_last() -> None:
    found = diagnosis.diagnose(
        _evidence(
            FAILED,
            _life("master-0", 10.0),
            _life("worker-0", 12.0),
            reports={
                ("mnist-master-0", 0): _report(9.9, "connection closed by peer"),
                ("mnist-worker-0", 0): _report(9.0, "the cause"),
            },
        )
    )

    assert found is not None
    assert found.error is not None
    assert found.summary == "mnist failed: rank 1 on box failed: ValueError: the cause"
    assert found.error.what == "ValueError: the cause"
    assert found.more == "bireme logs mnist --rank 1"


def test_a_rank_that_was_killed_is_the_cause_of_the_error_that_its_peer_saw_at_once() -> None:
    found = diagnosis.diagnose(
        _evidence(
            FAILED,
            _life("worker-0", 10.0, code=137),
            _life("master-0", 10.2),
            reports={("mnist-master-0", 0): _report(9.99, "connection closed by peer")},
        )
    )

    assert found is not None
    assert found.summary == "mnist failed: rank 1 on box was killed by SIGKILL (exit code 137)"


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (255, "ended with exit code 255"),
        (128, "ended with exit code 128"),
        (160, "ended with exit code 160"),
        (192, "ended with exit code 192"),
        (129, "was killed by SIGHUP (exit code 129)"),
        (143, "was killed by SIGTERM (exit code 143)"),
        (159, "was killed by SIGSYS (exit code 159)"),
    ],
)
def test_only_a_real_signal_is_called_one(code: int, how: str) -> None:
    found = diagnosis.diagnose(_evidence(FAILED, _life("worker-0", 10.0, code=code)))

    assert found is not None
    assert found.error is not None
    assert found.error.how == how


def test_out_of_memory_is_named() -> None:
    failure = Failure(10.0, 137, "pytorch", "OOMKilled", "it may use 1 GiB and used 1 GiB")
    life = replace(_life("worker-1", 10.0, code=137), failures=(failure,))

    found = diagnosis.diagnose(_evidence(FAILED, life))

    assert found is not None
    assert found.error is not None
    assert found.error.how == "ran out of memory"
    said = "it may use 1 GiB and used 1 GiB; give each rank more with --memory, or use less"
    assert found.summary == f"mnist failed: rank 2 on box ran out of memory: {said}"


def test_what_was_stopped_after_the_verdict_is_not_blamed() -> None:
    late = _life("worker-0", 25.0, code=143)

    found = diagnosis.diagnose(_evidence(FAILED, late, reports={("mnist-worker-0", 0): _report(24.0)}))

    assert found is not None
    assert found.error is None
    assert found.summary == "mnist failed: it reached its limit"


def test_only_the_last_attempt_is_told_of_a_failed_job() -> None:
    second = replace(FAILED, attempt=1, crashes=2)

    found = diagnosis.diagnose(
        _evidence(second, _life("worker-0", 5.0), _life("worker-1", 15.0, code=3, attempt=1))
    )

    assert found is not None
    assert found.summary == "mnist failed: rank 2 on box ended with exit code 3 in attempt 2"


def test_a_running_job_tells_why_it_was_restarted() -> None:
    running = Status(attempt=1, crashes=1)

    found = diagnosis.diagnose(
        _evidence(running, _life("worker-0", 5.0), _life("worker-0", attempt=1), _life("master-0", attempt=1))
    )

    assert found is not None
    assert found.finding is Finding.RESTARTED
    assert found.summary == "mnist was restarted: rank 1 on box ended with exit code 1"


def test_a_replica_that_recovered_long_ago_is_not_blamed_where_replicas_restart_alone() -> None:
    job = build.job("PyTorchJob", build.role("Master"), build.role("Worker", 2))
    recovered = replace(_life("worker-0", 5.0), phase=None)

    found = diagnosis.diagnose(_evidence(FAILED, recovered, _life("worker-1", 15.0), job=job))

    assert found is not None
    assert found.error is not None
    assert found.error.short == "worker-1"


def test_a_report_of_an_earlier_program_of_the_replica_is_not_used() -> None:
    again = replace(_life("worker-0", 15.0, code=137), ran=12.0)

    found = diagnosis.diagnose(_evidence(FAILED, again, reports={("mnist-worker-0", 0): _report(5.0)}))

    assert found is not None
    assert found.error is not None
    assert found.error.traceback == ""
    assert found.error.how == "was killed by SIGKILL (exit code 137)"


def test_an_eviction_says_what_was_lost() -> None:
    failure = Failure(10.0, 137, "pytorch", "Evicted", "its zygote died, and it died with it")
    life = replace(_life("worker-0", 10.0), failures=(failure,), loss=Loss.EVICTION)

    found = diagnosis.diagnose(_evidence(FAILED, life))

    assert found is not None
    assert found.summary.endswith("was lost: its zygote died, and it died with it")


def test_a_job_that_waits_says_for_what() -> None:
    found = diagnosis.diagnose(_evidence(Status(waiting="needs 2 cpus, 0 free; held by other (2)")))

    assert found is not None
    assert (found.finding, found.summary) == (
        Finding.WAITING,
        "mnist waits: needs 2 cpus, 0 free; held by other (2)",
    )


def test_a_job_that_runs_well_needs_no_diagnosis() -> None:
    assert diagnosis.diagnose(_evidence(Status(), _life("worker-0"))) is None


def test_ranks_that_never_asked_for_their_rank_are_independent_copies() -> None:
    silent: Reports = {
        (f"mnist-{one}", 0): RankReport(read_rank=False) for one in ("master-0", "worker-0", "worker-1")
    }

    found = diagnosis.diagnose(_evidence(SUCCEEDED, reports=silent))

    assert found is not None
    assert found.finding is Finding.INDEPENDENT
    assert found.summary.startswith("train.py ran 3 independent copies: it never asked for its rank")


def test_a_script_that_uses_lightning_is_told_what_lightning_takes() -> None:
    silent: Reports = {
        (f"mnist-{one}", 0): RankReport(read_rank=False, trainer="lightning")
        for one in ("master-0", "worker-0", "worker-1")
    }

    found = diagnosis.diagnose(_evidence(SUCCEEDED, reports=silent))

    assert found is not None
    assert found.advice == ('Trainer(devices=3, strategy="ddp")',)


def test_one_rank_that_asked_or_left_no_report_is_enough_to_say_nothing() -> None:
    asked: Reports = {
        ("mnist-master-0", 0): RankReport(read_rank=True),
        ("mnist-worker-0", 0): RankReport(read_rank=False),
        ("mnist-worker-1", 0): RankReport(read_rank=False),
    }
    unknown = {key: report for key, report in asked.items() if key[0] != "mnist-master-0"}

    assert diagnosis.diagnose(_evidence(SUCCEEDED, reports=asked)) is None
    assert diagnosis.diagnose(_evidence(SUCCEEDED, reports=unknown)) is None


def test_replicas_of_a_plain_kubeflow_job_are_not_called_copies() -> None:
    job = build.job("PyTorchJob", build.role("Master"), build.role("Worker", 1))
    silent: Reports = {(f"mnist-{one}", 0): RankReport(read_rank=False) for one in ("master-0", "worker-0")}

    assert diagnosis.diagnose(_evidence(SUCCEEDED, job=job, reports=silent)) is None


def test_each_attempt_is_told_by_the_error_of_the_one_before_it() -> None:
    third = Status(attempt=2, crashes=2)
    evidence = _evidence(
        third,
        _life("worker-0", 5.0, code=3),
        _life("worker-1", 8.0, code=4, attempt=1),
        _life("worker-0", attempt=2),
    )

    found = [diagnosis.restarted(evidence, attempt) for attempt in (1, 2)]

    assert [one.error.exit_code for one in found if one and one.error] == [3, 4]


def test_an_attempt_after_replicas_that_left_no_word_is_explained_too() -> None:
    found = diagnosis.restarted(_evidence(Status(attempt=1, evictions=1), _life("worker-0", attempt=1)), 1)

    assert found is not None
    assert found.summary == "mnist was restarted: its replicas were lost together with their runner or node"


def test_an_error_whose_rank_was_stopped_before_its_end_is_told_as_a_failure() -> None:
    found = diagnosis.diagnose(
        _evidence(FAILED, _life("master-0"), reports={("mnist-master-0", 0): _report(9.0, "no")})
    )

    assert found is not None
    assert found.summary == "mnist failed: rank 0 on box failed: ValueError: no"


def test_an_attempt_that_its_user_wished_for_is_nobodys_fault() -> None:
    found = diagnosis.restarted(_evidence(Status(attempt=1, wished=1), _life("worker-0", attempt=1)), 1)

    assert found is not None
    assert (found.summary, found.error) == ("mnist starts again because it was scaled or resumed", None)


def test_the_failure_names_the_rank_that_ps_names() -> None:
    blame = Blame("mnist-worker-1", "worker", 1, 0, exit_code=137, reason="Error")
    status = replace(FAILED, blame=blame)
    echo = ReportedError("ValueError", "no batch", "Traceback\nValueError: no batch\n", 9.0, "train.py:3")
    lives = (_life("master-0", 9.5), _life("worker-1", 10.0, code=137))
    evidence = _evidence(status, *lives, reports={("mnist-master-0", 0): RankReport(True, echo)})

    found = diagnosis.diagnose(evidence)

    assert found is not None
    assert found.error is not None
    assert found.error.replica == "mnist-worker-1"
    assert diagnosis.cause(GANG, status).startswith(f"rank {found.error.rank} ")


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("because of an error that another attempt would not change", "another attempt would not change it"),
        (
            "because it failed twice in the same way without getting further",
            "it failed twice in the same way without getting further",
        ),
    ],
)
def test_a_failure_that_was_not_tried_again_says_why(why: str, said: str) -> None:
    message = f"Job {GANG.name} has failed {why}: mnist-worker-1: ValueError: no"
    condition = Condition(ConditionType.FAILED, True, "PyTorchJobFailed", message, 20.0, 20.0)
    status = replace(FAILED, conditions=(condition,))

    found = diagnosis.diagnose(_evidence(status, _life("worker-1", 10.0)))

    assert found is not None
    assert found.summary.endswith(f"(not retried: {said})")


def test_a_failure_that_used_up_its_retries_does_not_say_that_it_was_not_tried_again() -> None:
    found = diagnosis.diagnose(_evidence(FAILED, _life("worker-1", 10.0)))

    assert found is not None
    assert "not tried again" not in found.summary


def test_an_eviction_after_a_crash_is_not_explained_by_that_crash() -> None:
    restarting = Condition(ConditionType.RESTARTING, True, "x", "mnist is restarting", 9.0, 9.0)
    blame = Blame("mnist-worker-1", "worker", 1, 0, exit_code=1, error="ValueError: no")
    crash = Status(conditions=(restarting,), attempt=1, crashes=1, blame=blame)
    eviction = replace(crash, attempt=2, evictions=1)

    assert "ValueError: no" in job_state.why("mnist", GANG, crash, "box", True, 10.0)
    assert job_state.why("mnist", GANG, eviction, "box", True, 10.0).endswith("mnist is restarting")
