"""How far a gang got, whom its last crash is blamed on, and whether another attempt would help.

What a rank tells of its end comes with its replica. An attempt that got further than every one before it
has earned its budget anew; one that fell just as the last one did, and got no further, has shown that trying
again is in vain. Where nobody tells of steps, an attempt that ran for long has got somewhere. Only gangs are
judged so: elsewhere the restart policy of each role is the user's own.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme import kinds
from bireme.core.restarts import backoff, permanent_errors
from bireme.core.restarts.losses import Losses
from bireme.model.job import Job, RestartScope
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase, Told, printable
from bireme.model.status import Blame, ConditionType, Status

GANG = ""
"""Under this key the status keeps the retries of the gang as a whole."""
LONGEST_ERROR = 300
"""Characters of an error that a status keeps."""


_KILLED = frozenset(128 + number for number in (4, 7, 8, 9, 11))
"""Exit codes of SIGILL, SIGBUS, SIGFPE, SIGKILL and SIGSEGV: nobody is ended so because a peer is gone.

With SIGABRT and SIGTERM libraries end the survivors of a loss.
"""
_OUT_OF_MEMORY = "OOMKilled"
_UNCHANGING = "because of an error that another attempt would not change"
_REPEATED = "because it failed twice in the same way without getting further"


def note(
    job: Job, before: Status, counted: Status, observation: Observation, losses: Losses, now: float
) -> Status:
    """The status with what the new losses tell: how far the attempt got, and who is to blame."""
    if not losses:
        return counted
    current = [one for one in observation.replicas if one.attempt == before.attempt]
    if job.unit is not RestartScope.GANG:
        return replace(counted, blame=_blame(current, losses) or counted.blame)
    # Beside an eviction, crashes are its echo, and tell nothing of the script.
    blame = counted.blame if losses.evictions else _blame(current, losses) or counted.blame
    counted = aged(replace(counted, blame=blame), now)
    known = before.progress
    step = max((one.told.step for one in current), default=-1)
    saved = max((one.told.saved for one in current), default=-1)
    if step <= known.step and saved <= known.saved:
        return counted
    reached = replace(
        counted.progress,
        step=max(step, known.step),
        saved=max(saved, known.saved),
        crashes=before.crashes,
        evictions=before.evictions,
    )
    return replace(counted, progress=reached)


def aged(status: Status, now: float) -> Status:
    """The status that remembers, when its attempt ends, whether everybody of it ran for long."""
    if not _has_lasted(status, now) or status.progress.lasted:
        return status
    return replace(status, progress=replace(status.progress, lasted=True))


def is_new(before: Status, after: Status) -> bool:
    """Whether the last losses came with progress."""
    was, now = before.progress, after.progress
    return (was.step, was.saved) != (now.step, now.saved)


def in_vain(job: Job, before: Status, after: Status, observation: Observation, now: float) -> str | None:
    """Why no further attempt is made although the budget would allow it, in a sentence; None if one is."""
    blame = after.blame
    if job.unit is not RestartScope.GANG or blame is None or after.crashes == before.crashes:
        return None
    current = [one for one in observation.replicas if one.attempt == before.attempt]
    guilty = next((one for one in current if one.name == blame.replica), None)
    if guilty is None:
        return None
    who = f"{blame.replica}: {blame.error}"
    if permanent_errors.is_unchanging(guilty.told) and not _has_begun(after, current, guilty):
        return f"Job {job.name} has failed {_UNCHANGING}: {who}"
    if _repeats(before, after, now) and not _is_doubtful(job, guilty, current):
        return f"Job {job.name} has failed {_REPEATED}: {who}"
    return None


def why_no_more(job: Job, status: Status) -> str:
    """Why a job that failed was not tried again although it might have been, in a clause."""
    failed = status.condition(ConditionType.FAILED)
    said = failed.message.removeprefix(f"Job {job.name} has failed ") if failed and failed.status else ""
    if said.startswith(_UNCHANGING):
        return "another attempt would not change it"
    return "it failed twice in the same way without getting further" if said.startswith(_REPEATED) else ""


def _repeats(before: Status, after: Status, now: float) -> bool:
    last, this = before.blame, after.blame
    if last is None or this is None or not this.signature or is_new(before, after):
        return False
    retry = before.retries.get(GANG)
    # Where nobody tells of steps, a long time without a failure is progress enough.
    is_long = retry is not None and now - retry.not_before >= backoff.RESET
    return last.signature == this.signature and last.attempt != this.attempt and not is_long


def _is_doubtful(job: Job, guilty: Replica, current: list[Replica]) -> bool:
    """Whether another's death may be the cause, or no replica that fell can know how far the attempt got."""
    if guilty.role in kinds.of(job).helpers and not _knows_steps(guilty.told):
        return True
    return any(one.phase is ReplicaPhase.FAILED and not one.told.type for one in current)


def _has_begun(status: Status, current: list[Replica], guilty: Replica) -> bool:
    """Whether this attempt or an earlier one came to its first step, or ran for so long that it must have.

    A checkpoint that does not fit is found by the attempt after one that trained: there this one counts.
    """
    reached = status.progress
    earlier = reached.lasted or reached.step >= 0 or reached.saved >= 0
    if earlier and not permanent_errors.is_complaint(guilty.told):
        return True
    return any(_knows_steps(one.told) for one in current)


def _has_lasted(status: Status, now: float) -> bool:
    running = status.condition(ConditionType.RUNNING)
    return running is not None and running.status and now - running.changed >= backoff.RESET


def _knows_steps(told: Told) -> bool:
    return told.step >= 0 or told.saved >= 0


def _blame(current: list[Replica], losses: Losses) -> Blame | None:
    fallen = [
        one
        for one in current
        if one.name in losses.crashes and (one.phase is not ReplicaPhase.FAILED or one.loss is Loss.CRASH)
    ]
    if not fallen:
        return None
    one = min(fallen, key=_guilt)
    return Blame(
        replica=one.name,
        role=one.role,
        index=one.index,
        attempt=one.attempt,
        exit_code=one.exit_code,
        reason=one.reason,
        message=printable(one.message)[:LONGEST_ERROR],
        error=printable(one.told.line)[:LONGEST_ERROR],
        signature="" if _is_killed(one) else permanent_errors.signature(one.told),
    )


def _guilt(replica: Replica) -> tuple[int, float]:
    """A kill first, then an error of its own, then a death without a word, then what a lost peer brings."""
    told = replica.told
    if _is_killed(replica):
        return 0, told.time
    if not told.type:
        return 2, 0.0
    return (1 if permanent_errors.signature(told) else 3), told.time


def _is_killed(replica: Replica) -> bool:
    """Whether it was ended from outside, or by a fault of its own, before it could say why."""
    if replica.reason == _OUT_OF_MEMORY:
        return True
    return replica.exit_code in _KILLED and not replica.told.type
