"""Decides what is done about the objects that a job has in a cluster beside its replicas.

A backend only reports which of them differ from what the job wants. Whether that matters depends on the job:
one that has ended needs no autoscaler, but the rights of its launcher are taken back even then.
"""

from __future__ import annotations

from bireme.model.decisions import Action, Remind, Repair
from bireme.model.job import Job
from bireme.model.replicas import Observation, Part
from bireme.model.status import Phase, Status

REMIND_AFTER = 10.0
"""Seconds after which a gang scheduler is made to retry a job for which it found no room. The scheduler
plugins retry by themselves only after minutes, whatever room there is."""


def decide(
    job: Job, status: Status, observation: Observation, now: float
) -> tuple[tuple[Action, ...], float | None]:
    """The actions that keep a job's other objects in order, and when to look again."""
    is_over = status.phase.is_final or job.policy.suspend
    matters = {
        Part.LAUNCHER_ROLE: True,
        Part.POD_GROUP: not is_over,
        # Before the job runs, its autoscaler is made together with its first replicas.
        Part.AUTOSCALER: status.phase is Phase.RUNNING and not is_over,
    }
    actions: list[Action] = [Repair(part) for part in observation.drift if matters[part]]
    since = observation.unplaced_since
    if since is None or is_over:
        return tuple(actions), None
    if now < since + REMIND_AFTER:
        return tuple(actions), since + REMIND_AFTER
    return (*actions, Remind()), now + REMIND_AFTER
