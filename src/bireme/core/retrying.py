"""How far a gang got, whom its last crash is blamed on, and whether another attempt would help.

What a rank tells of its end comes with its replica. An attempt that got further than every one before it
has earned its budget anew; one that fell just as the last one did, and got no further, has shown that trying
again is in vain. Only gangs are judged so: elsewhere the restart policy of each role is the user's own.
"""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core import backoff, unchanging
from bireme.core.losses import Losses
from bireme.model.job import Job, Unit
from bireme.model.replicas import Loss, Observation, Replica, ReplicaPhase, Told
from bireme.model.status import Blame, Progress, Status

GANG = ""
"""Under this key the status keeps the retries of the gang as a whole."""
LONGEST_ERROR = 300
"""Characters of an error that a status keeps."""


def note(job: Job, before: Status, counted: Status, observation: Observation, losses: Losses) -> Status:
    """The status with what the new losses tell: how far the attempt got, and who is to blame."""
    if not losses:
        return counted
    current = [one for one in observation.replicas if one.attempt == before.attempt]
    blame = _blame(current, losses) or counted.blame
    if job.unit is not Unit.GANG:
        return replace(counted, blame=blame)
    known = before.progress
    step = max((one.told.step for one in current), default=-1)
    saved = max((one.told.saved for one in current), default=-1)
    if step > known.step or saved > known.saved:
        reached = Progress(max(step, known.step), max(saved, known.saved), before.crashes, before.evictions)
        return replace(counted, progress=reached, blame=blame)
    return replace(counted, blame=blame)


def is_new(before: Status, after: Status) -> bool:
    """Whether the last losses came with progress."""
    return after.progress != before.progress


def in_vain(job: Job, before: Status, after: Status, observation: Observation, now: float) -> str | None:
    """Why no further attempt is made although the budget would allow it, in a sentence; None if one is."""
    blame = after.blame
    if job.unit is not Unit.GANG or blame is None or after.crashes == before.crashes:
        return None
    current = [one for one in observation.replicas if one.attempt == before.attempt]
    guilty = next((one for one in current if one.name == blame.replica), None)
    if guilty is None:
        return None
    if unchanging.is_unchanging(guilty.told) and not any(_has_begun(one.told) for one in current):
        return (
            f"Job {job.name} has failed because of an error that another attempt would not change: "
            f"{blame.replica}: {blame.error}"
        )
    if _repeats(before, after, now):
        return (
            f"Job {job.name} has failed because it failed twice in the same way without getting further: "
            f"{blame.replica}: {blame.error}"
        )
    return None


def _repeats(before: Status, after: Status, now: float) -> bool:
    last, this = before.blame, after.blame
    if last is None or this is None or not this.signature or is_new(before, after):
        return False
    retry = before.retries.get(GANG)
    # Where nobody tells of steps, a long time without a failure is progress enough.
    is_long = retry is not None and now - retry.not_before >= backoff.RESET
    return last.signature == this.signature and last.attempt != this.attempt and not is_long


def _has_begun(told: Told) -> bool:
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
        message=one.message[:LONGEST_ERROR],
        error=one.told.line[:LONGEST_ERROR],
        signature=unchanging.signature(one.told),
    )


def _guilt(replica: Replica) -> tuple[int, float]:
    """An error of its own first, then a death without a word, then what a lost peer brings about."""
    told = replica.told
    if not told.type:
        return 1, 0.0
    return (0 if unchanging.signature(told) else 2), told.time
