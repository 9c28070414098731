"""How is a run changed from outside: by editing what is desired, and waking whoever looks after it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from bireme import errors
from bireme.engine import guard
from bireme.model.job import Job
from bireme.model.status import Phase
from bireme.runs import directory
from bireme.runs import machine as machines
from bireme.runs.directory import RunDirectory
from bireme.runs.records import Desired, Machine


def stop(run: RunDirectory) -> None:
    """Put the job aside: SIGTERM, grace, Suspended."""
    run.edit(lambda desired: replace(desired, job=_suspended(desired.job, True)))
    tend(run)


def resume(run: RunDirectory) -> None:
    """Let a job that was put aside go on with its next attempt."""
    phase = run.status().phase
    if phase.is_final:
        raise errors.BadInput(
            f"{run.id} has ended ({phase})", hint="a job that ended is run anew with `bireme run`"
        )
    run.edit(lambda desired: replace(desired, job=_suspended(desired.job, False)))
    tend(run)


def scale(run: RunDirectory, role: str, replicas: int) -> None:
    """Change how many replicas a role has."""

    def scaled(desired: Desired) -> Desired:
        found = desired.job.role(role)
        if found is None:
            known = ", ".join(one.name for one in desired.job.roles)
            raise errors.BadInput(f"{run.id} has no role {role}", hint=f"its roles are {known}")
        roles = tuple(
            replace(one, replicas=replicas) if one.name == role else one for one in desired.job.roles
        )
        return replace(desired, job=replace(desired.job, roles=roles))

    run.edit(scaled)
    tend(run)


def discard(run: RunDirectory) -> None:
    """Say that the run is to be ended and removed; `remove` may follow once it is at rest."""
    if run.is_active():
        run.edit(lambda desired: replace(desired, deleted=True))
        tend(run)


def is_at_rest(run: RunDirectory) -> bool:
    """Whether nobody works on the run: it ended or was put aside."""
    phase = run.status().phase
    return (phase.is_final or phase is Phase.SUSPENDED) and not run.is_held()


def tend(run: RunDirectory) -> bool:
    """See to it that the run has a runner if it needs one; returns whether a new one was started."""
    if run.wake() and run.is_held():
        return False
    lock = run.hold()
    if lock is None:
        return False
    guard.start(run, lock)
    return True


def revive(home: Path) -> tuple[RunDirectory, ...]:
    """Start runners for the runs of this machine that lost theirs, and return those."""
    machine = machines.this_machine()
    return tuple(run for run in directory.every(home) if _is_orphan(run, machine) and tend(run))


def _is_orphan(run: RunDirectory, machine: Machine) -> bool:
    if run.is_held():
        return False
    try:
        phase, desired, context = run.status().phase, run.desired(), run.context()
    except errors.BiremeError:
        # A damaged run must not keep every command from working; `show` and `rm` speak of it.
        return False
    if not context.is_of(machine):
        return False
    asleep = phase is Phase.SUSPENDED and (desired.job.policy.suspend or desired.deleted)
    return not phase.is_final and not asleep


def _suspended(job: Job, wish: bool) -> Job:
    return replace(job, policy=replace(job.policy, suspend=wish))
