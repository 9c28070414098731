"""Explains why a job waits, restarted or failed: the first cause, not the last echo. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from msgspec import Struct

from bireme.core.restarts import retry_policy
from bireme.model.job import Job, RestartScope, replica_ids
from bireme.model.replicas import Loss, ReplicaPhase, printable
from bireme.model.status import ConditionType, Phase, Status
from bireme.runs.rank_reports import RankReport, ReportedError
from bireme.runs.replica_history import Failure, ReplicaHistory
from bireme.sdk import rank_names
from bireme.sdk.views import Diagnosis, Finding, FirstError

SLACK = 0.25
"""Seconds by which a busy machine's runner may learn late of a death, so that a peer's error overtakes it."""

TAIL = 10
"""Lines of a rank's output that are shown with its end."""

_LATE = 2.0
"""A report older than the start of its rank by more than this is one of an earlier program of the replica."""

FAULTS = frozenset(128 + number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE))
"""Exit codes of a program that did what no program may: its interpreter writes down where."""

_UNREAD = ("EOFError: EOF when reading a line", "bdb.BdbQuit")
"""How a script ends that asks for input where there is none: with `input()`, and in a debugger."""

_OUT_OF_MEMORY = "OOMKilled"
_SIGNALS = frozenset(int(number) for number in signal.Signals if number < 32)
"""The classic ones: an exit code of 160 and more is a number that a program chose."""


class Evidence(Struct, frozen=True, kw_only=True):
    """All that is known about a run when it is asked why."""

    id: str
    job: Job
    status: Status
    host: str
    lives: tuple[ReplicaHistory, ...] = ()
    reports: Mapping[tuple[str, int], RankReport] = {}
    crashes: Mapping[tuple[str, int], str] = {}
    """Where a replica's code was when a signal ended it, as its interpreter wrote in its last moment."""


def diagnose(evidence: Evidence) -> Diagnosis | None:
    """The diagnosis of a job as it stands; None if there is nothing to explain."""
    match evidence.status.phase:
        case Phase.FAILED:
            return _failed(evidence)
        case Phase.SUCCEEDED:
            return _succeeded(evidence)
        case Phase.QUEUED:
            return Diagnosis(
                finding=Finding.WAITING,
                summary=f"{evidence.id} waits: {evidence.status.waiting}",
                more="bireme ps",
            )
        case _:
            return restarted(evidence)


def restarted(evidence: Evidence, attempt: int | None = None) -> Diagnosis | None:
    """Explains why an attempt was begun, by default the last one, whatever has become of the job since."""
    status = evidence.status
    if status.trouble and attempt is None:
        return Diagnosis(
            finding=Finding.WAITING,
            summary=f"{evidence.id} retries: {status.trouble}",
            more=f"bireme show {evidence.id}",
        )
    if attempt is not None and status.wished == attempt:
        summary = f"{evidence.id} starts again because it was scaled or resumed"
        return Diagnosis(finding=Finding.RESTARTED, summary=summary)
    if not status.crashes and not status.evictions:
        return None
    attempts = range(status.attempt, -1, -1) if attempt is None else (attempt - 1,)
    error = next((error for number in attempts if (error := first_error(evidence, number))), None)
    if error is None and not status.evictions:
        return None
    if error is None:
        summary = f"{evidence.id} was restarted: its replicas were lost together with their runner or node"
        return Diagnosis(finding=Finding.RESTARTED, summary=summary)
    return Diagnosis(
        finding=Finding.RESTARTED,
        summary=f"{evidence.id} was restarted: {_described(evidence.job, error)}",
        error=error,
        more=_logs_command(evidence, error),
    )


def first_error(evidence: Evidence, attempt: int) -> FirstError | None:
    """The error that the decision was made on; else the earliest by its own time, not the first end."""
    ended = [life for life in evidence.lives if life.attempt == attempt and _counts(evidence, life)]
    first_end = min((life.failures[-1].at for life in ended if life.failures), default=None)
    suspects: list[tuple[float, FirstError]] = []
    for life in _to_blame(evidence, ended):
        failure = life.failures[-1] if life.failures else None
        reported = _reported(evidence, life)
        if reported is not None:
            suspects.append((reported.time, _from_report(evidence, life, reported, failure)))
        elif failure is not None:
            # Its death was seen from outside, which takes longer than a peer's own error after it.
            early = SLACK if failure.at == first_end else 0.0
            suspects.append((failure.at - early, _from_end(evidence, life, failure)))
        elif life.phase is ReplicaPhase.FAILED:
            lost = Failure(life.ended or life.began, life.exit_code or 0, "", life.reason, life.message)
            suspects.append((lost.at, _from_end(evidence, life, lost)))
    blame = evidence.status.blame
    if blame is not None and blame.attempt == attempt:
        # A question asked in another way, as with `ps`, is answered with the same rank.
        suspects = [suspect for suspect in suspects if suspect[1].replica == blame.replica] or suspects
    return min(suspects, key=lambda suspect: suspect[0])[1] if suspects else None


def cause(job: Job, status: Status) -> str:
    """Describes the last crash in a line, from the status alone: `rank 1: ValueError: no such file`."""
    blame = status.blame
    if blame is None:
        return ""
    role = job.role(blame.role)
    rank = rank_names.rank_of(job, role, blame.index) if role else None
    named = rank_names.short_name(job, blame.replica) if rank is None else f"rank {rank}"
    if blame.reason == _OUT_OF_MEMORY:
        return f"{named} ran out of memory: {_memory(job, blame.message)}"
    ended = Failure(0.0, blame.exit_code or 0, "", blame.reason, blame.message)
    return f"{named}: {blame.error}" if blame.error else f"{named} {_how(ended, Loss.CRASH)}"


def tries(job: Job, status: Status) -> str:
    """How often it was tried, as it stands behind a cause."""
    if job.unit is RestartScope.GANG:
        return f" ({status.attempt + 1} attempt{'s' if status.attempt else ''})"
    return f" ({status.crashes} crashes)" if status.crashes > 1 else ""


def _described(job: Job, error: FirstError, tries: str = "") -> str:
    is_news = error.what and error.what not in error.how
    which = rank_names.title(job, error.replica, error.rank, error.host)
    return f"{which} {error.how}{tries}" + (f": {error.what}" if is_news else "")


def _failed(evidence: Evidence) -> Diagnosis:
    error = first_error(evidence, evidence.status.attempt)
    condition = evidence.status.condition(ConditionType.FAILED)
    stated = condition.message if condition else "it is not known why"
    if error is None:
        summary = f"{evidence.id} failed: {stated}"
    else:
        tries = f" in attempt {error.attempt + 1}" if error.attempt else ""
        summary = f"{evidence.id} failed: {_described(evidence.job, error, tries)}"
        if why := retry_policy.why_no_more(evidence.job, evidence.status):
            summary += f" (not retried: {why})"
    advice: tuple[str, ...] = ()
    if error is not None and error.what.startswith(_UNREAD) and evidence.job.torchrun_environment:
        advice = (
            "standard input is only given to a job with one worker: "
            f"bireme run {_script(evidence.job)} --workers 1",
        )
        if rank_names.is_alone(evidence.job):
            advice = ("standard input has ended: a terminal's with Ctrl-D, with --detach, or when left",)
    return Diagnosis(
        finding=Finding.FAILED,
        summary=summary,
        error=error,
        more=_logs_command(evidence, error),
        advice=advice,
    )


def _succeeded(evidence: Evidence) -> Diagnosis | None:
    """Warns although all ended well: of work that is not on disk, of ranks that never met."""
    job, attempt = evidence.job, evidence.status.attempt
    found = [evidence.reports.get((member.name, attempt)) for member in replica_ids(job)]
    lost = next((report.lost for report in found if report is not None and report.lost), "")
    if lost:
        return Diagnosis(
            finding=Finding.UNSAVED,
            summary=f"{evidence.id} {printable(lost)}",
            more=f"bireme logs {evidence.id}",
        )
    if not job.torchrun_environment or job.total < 2:
        return None
    if any(report is None or report.read_rank for report in found):
        return None
    trainer = next((report.trainer for report in found if report is not None and report.trainer), "")
    advice: tuple[str, ...] = (
        'torch.distributed.init_process_group("gloo")  # "nccl" on GPUs',
        "model = torch.nn.parallel.DistributedDataParallel(model)",
    )
    if trainer == "lightning":
        advice = (f'Trainer(devices={job.total}, strategy="ddp")',)
    return Diagnosis(
        finding=Finding.INDEPENDENT,
        summary=f"{_script(job)} ran {job.total} independent copies: it never asked for its rank. "
        f"To train together, {'write' if trainer else 'add'}:",
        advice=advice,
    )


def _counts(evidence: Evidence, life: ReplicaHistory) -> bool:
    """Whether an end belongs to the story: what is stopped after the verdict does not."""
    over = evidence.status.completed
    reported = _reported(evidence, life)
    if reported is not None:
        when: float | None = reported.time
    else:
        when = life.failures[-1].at if life.failures else life.ended
    return over is None or when is None or when <= over


def _to_blame(evidence: Evidence, ended: list[ReplicaHistory]) -> list[ReplicaHistory]:
    """Of a gang all; else those that failed for good, or the one that crashed last if none did.

    Replicas that are restarted one by one may have recovered long ago from an error that is not the cause.
    """
    if evidence.job.unit is RestartScope.GANG:
        return ended
    final = [life for life in ended if life.phase is ReplicaPhase.FAILED and not life.gone]
    if final:
        return final
    crashed = [life for life in ended if life.failures]
    return sorted(crashed, key=lambda life: life.failures[-1].at)[-1:]


def _reported(evidence: Evidence, life: ReplicaHistory) -> ReportedError | None:
    report = evidence.reports.get((life.replica, life.attempt))
    if report is None or report.error is None:
        return None
    return report.error if report.error.time >= (life.ran or life.began) - _LATE else None


def _from_report(
    evidence: Evidence, life: ReplicaHistory, reported: ReportedError, failure: Failure | None
) -> FirstError:
    exit_code = failure.exit_code if failure else life.exit_code
    # What it reported says more than the exit code that follows from it.
    is_plain = failure is None or not (
        life.loss is not Loss.CRASH or failure.reason == _OUT_OF_MEMORY or _signal_name(failure.exit_code)
    )
    if failure is not None and not (is_plain and reported.line):
        how = _how(failure, life.loss)
    else:
        how = "failed" if reported.line else f"ended with exit code {reported.message}"
    return _error(evidence, life, exit_code, reported.time, how, reported.line, reported.traceback)


def _from_end(evidence: Evidence, life: ReplicaHistory, failure: Failure) -> FirstError:
    what = failure.message
    if failure.reason == _OUT_OF_MEMORY:
        what = _memory(evidence.job, what)
    how = _how(failure, life.loss, evidence.crashes.get((life.replica, life.attempt), ""))
    return _error(evidence, life, failure.exit_code or None, failure.at, how, what, "")


def _error(
    evidence: Evidence,
    life: ReplicaHistory,
    exit_code: int | None,
    time: float,
    how: str,
    what: str,
    traceback: str,
) -> FirstError:
    role = evidence.job.role(life.role)
    return FirstError(
        replica=life.replica,
        short=rank_names.short_name(evidence.job, life.replica),
        rank=rank_names.rank_of(evidence.job, role, life.index) if role else None,
        host=life.host or evidence.host,
        attempt=life.attempt,
        exit_code=exit_code,
        time=time,
        how=how,
        what=what,
        traceback=traceback,
    )


def _memory(job: Job, message: str) -> str:
    """What is known of a lack of memory, in the words of a script's options or of a manifest."""
    words = re.sub(r"^(?:init )?container \S+ ", "it ", message).removeprefix("out of memory: ")
    words = words or "it was killed"
    if not job.torchrun_environment:
        return words if "limits" in words else f"{words}; raise resources.limits.memory, or use less"
    words = words.replace("; raise resources.limits.memory, or use less", "")
    return f"{words}; give each rank more with --memory, or use less"


def _how(failure: Failure, loss: Loss, place: str = "") -> str:
    if failure.reason == _OUT_OF_MEMORY:
        return "ran out of memory"
    if loss is Loss.EVICTION:
        return f"was lost: {failure.message or failure.reason or 'the place it ran in is gone'}"
    if name := _signal_name(failure.exit_code):
        at = f" in {place}" if place else ""
        return f"was killed by {name}{at} (exit code {failure.exit_code})"
    return f"ended with exit code {failure.exit_code}"


def _signal_name(exit_code: int) -> str:
    """The signal that an exit code stands for, or nothing: 255 is what `exit(-1)` gives, not a signal."""
    number = exit_code - 128
    return signal.Signals(number).name if number in _SIGNALS else ""


def _logs_command(evidence: Evidence, error: FirstError | None) -> str:
    if error is None or rank_names.is_alone(evidence.job):
        return f"bireme logs {evidence.id}"
    if rank_names.counts_ranks(evidence.job):
        return f"bireme logs {evidence.id} --rank {error.rank}"
    return f"bireme logs {evidence.id} {error.short}"


def _script(job: Job) -> str:
    words = next((role.container.command for role in job.roles if role.replicas), ())
    return next((word for word in words if word.endswith(".py")), job.name)
