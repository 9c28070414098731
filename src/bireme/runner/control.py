"""Changes a run from outside: edits what is desired, and wakes its runner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from bireme import errors
from bireme.core import suspend
from bireme.model.job import Job
from bireme.model.status import Phase
from bireme.runs import directory
from bireme.runs import machine as machines
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import Desired, Machine
from bireme.runs.storage import files
from bireme.runs.storage.locks import FileLock


def stop(run: RunDirectory) -> None:
    """Suspend the job: SIGTERM, grace, Suspended."""

    def suspended(desired: Desired) -> Desired:
        policy = replace(desired.job.policy, suspend=True)
        return replace(desired, job=replace(desired.job, policy=policy))

    run.edit(suspended)
    ensure_runner(run)


def resume(run: RunDirectory) -> None:
    """Let a job that was suspended, or that failed, continue with its next attempt."""
    # A command that resumes or starts another run of the name at this moment must see this run, or be seen.
    with directory.door(run.home):
        status = run.status()
        if status.phase is Phase.SUCCEEDED:
            raise errors.BadInput(
                f"{run.id} has ended ({status.phase})",
                hint="a job that succeeded is run anew with `bireme run`",
            )
        if not files.has_room(run.path):
            raise files.no_room_for(run.path / "job.json")  # it could not be stopped any more
        has_failed = status.phase is Phase.FAILED
        for other in directory.active(run.home, run.id.name):
            if other.id != run.id and (has_failed or other.status().phase is not Phase.SUSPENDED):
                raise directory.still_active(
                    other, "two runs of one name cannot go on together; end it with `bireme rm {}`"
                )

        def resumed(desired: Desired) -> Desired:
            policy = replace(desired.job.policy, suspend=False)
            if has_failed:
                policy = replace(policy, resumes=status.resumes + 1)
            return replace(desired, job=replace(desired.job, policy=policy))

        run.edit(resumed)
    ensure_runner(run)


def is_called_back(run: RunDirectory) -> bool:
    """Whether the run has failed, and is to continue as soon as it has a runner."""
    return suspend.is_called_back(run.desired().job, run.status())


def resize(run: RunDirectory, change: Callable[[Job], Job]) -> None:
    """Change how many replicas roles have."""
    run.edit(lambda desired: replace(desired, job=change(desired.job)))
    ensure_runner(run)


def discard(run: RunDirectory) -> None:
    """Say that the run is to be ended and removed; `remove` may follow once it is at rest."""
    if run.is_active():
        run.edit(lambda desired: replace(desired, deleted=True))
        ensure_runner(run)


def is_at_rest(run: RunDirectory) -> bool:
    """Whether no runner works on the run: it ended or was suspended."""
    return run.status().phase.is_at_rest and not run.is_held()


def goes_on(run: RunDirectory) -> bool:
    """Whether the run is to continue; a run that is suspended in order to be removed is not."""
    return run.is_active() and not (run.desired().deleted and run.status().phase is Phase.SUSPENDED)


def hold_ended(run: RunDirectory) -> FileLock | None:
    """Hold a run that has ended or is to be removed, so that no process takes it; None if it continues."""
    lock = run.hold()
    if lock is None:
        return None
    try:
        if not goes_on(run):
            return lock
    except BaseException:
        lock.close()
        raise
    lock.close()
    return None


def ensure_runner(run: RunDirectory) -> bool:
    """See to it that the run has a runner if it needs one; returns whether a new one was started."""
    if run.wake() and run.is_held():
        return False
    lock = run.hold()
    if lock is None:
        return False
    from bireme.runner import guard  # here: most commands find every runner alive

    guard.start(run, lock)
    return True


def recover_orphans(home: Path) -> tuple[RunDirectory, ...]:
    """Start runners for the runs of this machine that lost theirs, and return those."""
    machine = machines.this_machine()
    return tuple(run for run in directory.every(home) if _is_orphan(run, machine) and ensure_runner(run))


def needs_runner(run: RunDirectory) -> bool:
    """Whether the run is to continue: it has not ended, or it was resumed since it ended or was suspended."""
    status, desired = run.status(), run.desired()
    phase = status.phase
    is_asleep = phase is Phase.SUSPENDED and (desired.job.policy.suspend or desired.deleted)
    return suspend.is_called_back(desired.job, status) or not (phase.is_final or is_asleep)


def _is_orphan(run: RunDirectory, machine: Machine) -> bool:
    if run.is_held():
        return False
    try:
        # The context last: every command asks this of every run, and most of them have ended.
        return needs_runner(run) and run.context().is_of(machine)
    except errors.BiremeError:
        # A damaged run must not keep every command from working; `show` and `rm` speak of it.
        return False
