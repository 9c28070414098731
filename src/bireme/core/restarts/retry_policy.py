"""Decides from how far a gang got, and from the crash that ended it, whether another attempt would help.

What a rank reports of its end comes with its replica. An attempt that got further than every one before it
has earned its budget anew; one that failed just as the last one did, and got no further, has shown that a
retry is in vain. Where no rank reports steps, an attempt that ran for long counts as progress. Only gangs are
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
"""The key under which a status keeps the retries of the gang as a whole."""
LONGEST_ERROR = 300
"""Characters of an error that a status keeps."""


_KILLED = frozenset(128 + number for number in (4, 7, 8, 9, 11))
"""Exit codes of SIGILL, SIGBUS, SIGFPE, SIGKILL and SIGSEGV: no rank ends so because a peer is gone.

With SIGABRT and SIGTERM libraries end the survivors of a loss.
"""
_OUT_OF_MEMORY = "OOMKilled"
_UNCHANGING = "because of an error that another attempt would not change"
_REPEATED = "because it failed twice in the same way without getting further"


def note(
    job: Job, before: Status, counted: Status, observation: Observation, losses: Losses, now: float
) -> Status:
    """The status with what the new losses tell: how far the attempt got, and which replica is to blame."""
    if not losses:
        return counted
    current = [replica for replica in observation.replicas if replica.attempt == before.attempt]
    if job.unit is not RestartScope.GANG:
        return replace(counted, blame=_blame(current, losses) or counted.blame)
    # Beside an eviction, crashes are its consequence, and tell nothing of the script.
    blame = counted.blame if losses.evictions else _blame(current, losses) or counted.blame
    counted = aged(replace(counted, blame=blame), now)
    known = before.progress
    step = max((replica.told.step for replica in current), default=-1)
    saved = max((replica.told.saved for replica in current), default=-1)
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
    """The status that remembers, when its attempt ends, whether all of its replicas ran for long."""
    running = status.condition(ConditionType.RUNNING)
    if running is None or not running.status or now - running.changed < backoff.RESET:
        return status
    return replace(status, progress=replace(status.progress, lasted=True))


def is_new(before: Status, after: Status) -> bool:
    """Whether the last losses came with progress."""
    was, now = before.progress, after.progress
    return (was.step, was.saved) != (now.step, now.saved)


def in_vain(job: Job, before: Status, after: Status, observation: Observation, now: float) -> str | None:
    """A sentence on why no other attempt is made although the budget would allow it; None if one is."""
    blame = after.blame
    if job.unit is not RestartScope.GANG or blame is None or after.crashes == before.crashes:
        return None
    current = [replica for replica in observation.replicas if replica.attempt == before.attempt]
    guilty = next((replica for replica in current if replica.name == blame.replica), None)
    if guilty is None:
        return None
    what = f"{blame.replica}: {blame.error}"
    if permanent_errors.is_unchanging(guilty.told) and not _has_begun(after, current, guilty):
        return f"Job {job.name} has failed {_UNCHANGING}: {what}"
    if not _repeats(before, after, now):
        return None
    # It may be a consequence: of the death of a replica that could not report why, or of something that a
    # replica that takes no part in the steps cannot know of.
    is_silent = any(replica.phase is ReplicaPhase.FAILED and not replica.told.type for replica in current)
    if is_silent or (guilty.role in kinds.of(job).helpers and not _knows_steps(guilty.told)):
        return None
    return f"Job {job.name} has failed {_REPEATED}: {what}"


def why_no_more(job: Job, status: Status) -> str:
    """A clause on why a job that failed was not retried although its budget allowed it."""
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
    # Where no rank reports steps, a long time without a failure is progress enough.
    is_long = retry is not None and now - retry.not_before >= backoff.RESET
    return last.signature == this.signature and last.attempt != this.attempt and not is_long


def _has_begun(status: Status, current: list[Replica], guilty: Replica) -> bool:
    """Whether this attempt or an earlier one came to its first step, or ran for so long that it must have.

    A checkpoint that does not fit is found by the attempt after one that trained: there only this one counts.
    """
    reached = status.progress
    earlier = reached.lasted or reached.step >= 0 or reached.saved >= 0
    if earlier and not permanent_errors.is_complaint(guilty.told):
        return True
    return any(_knows_steps(replica.told) for replica in current)


def _knows_steps(told: Told) -> bool:
    return told.step >= 0 or told.saved >= 0


def _blame(current: list[Replica], losses: Losses) -> Blame | None:
    crashed = [
        replica
        for replica in current
        if replica.name in losses.crashes
        and (replica.phase is not ReplicaPhase.FAILED or replica.loss is Loss.CRASH)
    ]
    if not crashed:
        return None
    guilty = min(crashed, key=_guilt)
    return Blame(
        replica=guilty.name,
        role=guilty.role,
        index=guilty.index,
        attempt=guilty.attempt,
        exit_code=guilty.exit_code,
        reason=guilty.reason,
        message=printable(guilty.message)[:LONGEST_ERROR],
        error=printable(guilty.told.line)[:LONGEST_ERROR],
        signature="" if _is_killed(guilty) else permanent_errors.signature(guilty.told),
    )


def _guilt(replica: Replica) -> tuple[int, float]:
    """Orders crashes by cause: a kill, an error of its own, an end without a report, a lost peer's effect."""
    told = replica.told
    if _is_killed(replica):
        return 0, told.time
    if not told.type:
        return 2, 0.0
    return (1 if permanent_errors.signature(told) else 3), told.time


def _is_killed(replica: Replica) -> bool:
    """Whether it was ended from outside, or by a fault of its own, before it could report why."""
    if replica.reason == _OUT_OF_MEMORY:
        return True
    return replica.exit_code in _KILLED and not replica.told.type
