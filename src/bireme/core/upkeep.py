"""Decides what is done about the objects that a job has in a cluster beside its replicas.

A backend only says which of them differ from what the job wants. Whether that matters depends on the job: one
that has ended needs no autoscaler, but the rights of its launcher are taken back even then.
"""

from __future__ import annotations

from typing import assert_never

from bireme.model.decisions import Action, Remind, Repair
from bireme.model.job import Job
from bireme.model.replicas import Observation, Part
from bireme.model.status import Phase, Status

REMIND_AFTER = 10.0
"""Seconds after which a gang scheduler is made to look again at a job for which it found no place. The
scheduler plugins look again by themselves only after minutes, whatever room there is."""


def decide(
    job: Job, status: Status, observation: Observation, now: float
) -> tuple[tuple[Action, ...], float | None]:
    """The actions that keep a job's other objects in order, and when to look again."""
    is_over = status.phase.is_final or job.policy.suspend
    actions: list[Action] = [
        Repair(part)
        for part in observation.drift
        if _matters(part, is_over=is_over, is_running=status.phase is Phase.RUNNING)
    ]
    since = observation.unplaced_since
    if since is None or is_over:
        return tuple(actions), None
    if now < since + REMIND_AFTER:
        return tuple(actions), since + REMIND_AFTER
    return (*actions, Remind()), now + REMIND_AFTER


def _matters(part: Part, *, is_over: bool, is_running: bool) -> bool:
    match part:
        case Part.LAUNCHER_ROLE:
            return True
        case Part.POD_GROUP:
            return not is_over
        case Part.AUTOSCALER:
            # Before that it is made together with the first replicas.
            return is_running and not is_over
        case _:
            assert_never(part)
