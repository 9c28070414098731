"""Jobs on this machine: their run directories, read and edited."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bireme import errors
from bireme.model.status import Phase
from bireme.runner import control, submit
from bireme.runs import attendance, directory, machine, run_files
from bireme.runs.directory import RunDirectory
from bireme.runs.logs.log_reader import EVERYTHING, LogSelection
from bireme.sdk import rank_names, scale_requests
from bireme.sdk.backends import STOP_PATIENCE, BackendName, Started
from bireme.sdk.submissions import SubmissionBatch
from bireme.sdk.views import CheckedJob, CheckView, JobSummary, JobView, RankStack

if TYPE_CHECKING:  # imported when a job is shown or followed: starting one does without
    from bireme.runs.index import RunRow
    from bireme.sdk.local.run_follower import Watch
    from bireme.sdk.tensorboards import Curves

_LOOK_EVERY = 0.05


class LocalPlace:
    """The runs in a home. Every method reads them anew, so nothing has to be closed."""

    backend = BackendName.LOCAL

    def __init__(self, home: Path) -> None:
        self._home = home

    def start(self, batch: SubmissionBatch) -> tuple[Started, ...]:
        if batch.options.image:
            raise errors.BadInput(
                "an image is not used on this machine", hint="leave --image out, or add --on kubernetes"
            )
        if len(batch.submissions) > 1:
            # Before the first one starts, and all complaints at once: none of them starts, or all do.
            lacking: list[errors.BiremeError] = []
            for submission in batch.submissions:
                for run in directory.active(self._home, submission.job.name):
                    raise directory.still_active(run, "end it with `bireme rm {}`")
                try:
                    submit.check(self._home, submission)
                except errors.BiremeError as error:
                    lacking.append(error)
            if lacking:
                raise submit.together(lacking)
        started = []
        for submission in batch.submissions:
            submitted = submit.submit(self._home, submission, secrets.token_hex(4), time.time())
            started.append(Started(LocalJob(submitted.run), submitted.notes))
        return tuple(started)

    def checked(self, batch: SubmissionBatch) -> CheckView:
        jobs = []
        for submission, read in zip(batch.submissions, batch.read, strict=True):
            here = ""
            notes: tuple[str, ...] = ()
            flags: tuple[str, ...] = ()
            by_hand: tuple[str, ...] = ()
            try:
                _, notes = submit.check(self._home, submission)
            except errors.BiremeError as error:
                # The verb that shows it says how the flags are given, so the hint is left out.
                here = error.what if error.flags else str(error)
                flags, by_hand = error.flags, error.by_hand
            jobs.append(
                CheckedJob(
                    kind=str(submission.job.kind),
                    name=submission.job.name,
                    file=read.file,
                    line=read.line,
                    replicas={role.name: role.replicas for role in submission.job.roles},
                    here=here,
                    flags=flags,
                    by_hand=by_hand,
                    notes=notes,
                )
            )
        return CheckView(jobs=tuple(jobs), warnings=batch.warnings)

    def jobs(self, all: bool) -> tuple[JobSummary, ...]:
        return self._listed(lambda row: all or row.is_active)

    def recent(self, ended: int) -> tuple[tuple[JobSummary, ...], int]:
        """The jobs that have not ended and the last few that have, and how many more there are."""
        rows = [row for row in self._rows() if row.phase is not None and not row.is_active]
        shown = {row.id for row in [row for row in rows if not row.hidden][:ended]}
        return self._listed(lambda row: row.is_active or row.id in shown), len(rows) - len(shown)

    def find(self, name: str) -> LocalJob:
        """The run that a name means: `mnist` the newest, `mnist#2` the second."""
        return LocalJob(directory.find(self._home, *run_files.parse_run(name)))

    def names(self) -> tuple[str, ...]:
        """What the runs are called, the newest first."""
        return tuple(dict.fromkeys(row.id.name for row in self._rows()))

    def newest(self, wanted: Callable[[Phase], bool]) -> LocalJob | None:
        """The run of this machine that was started last, of those in such a phase."""
        here = machine.this_machine()
        for row in self._rows():
            # The index knows hosts by name; a run whose files cannot be read has no phase.
            if row.phase is not None and wanted(row.phase) and row.host == here.host:
                return LocalJob(RunDirectory(self._home, row.id))
        return None

    def has(self, name: str) -> bool:
        """Whether a run of this name is here."""
        try:
            self.find(name)
        except errors.BadInput:
            return False
        return True

    def revive(self) -> tuple[str, ...]:
        """Restarts the runners of this machine's jobs that died, and returns the ids of the jobs."""
        return tuple(str(run.id) for run in control.recover_orphans(self._home))

    def _rows(self) -> tuple[RunRow, ...]:
        from bireme.runs.ledger import Ledger  # here: it imports SQLite, and a start does without

        return tuple(Ledger(self._home).runs())

    def _listed(self, wanted: Callable[[RunRow], bool]) -> tuple[JobSummary, ...]:
        from bireme.sdk.local import run_views

        here = machine.this_machine()
        found = []
        for row in self._rows():
            if row.phase is None or not wanted(row):
                continue
            try:
                found.append(run_views.summary(RunDirectory(self._home, row.id), here))
            except errors.BiremeError:
                continue  # it was removed a moment ago, or is damaged: `show` says which
        return tuple(found)


class LocalJob:
    """One run of this machine, or of another one that shares the home."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    @property
    def id(self) -> str:
        return str(self.run.id)

    @property
    def key(self) -> str:
        return f"{self.run.id.name}#{self.run.id.number}"

    def view(self) -> JobView:
        from bireme.sdk.local import run_views

        return run_views.view(self.run)

    def watch(self, choice: LogSelection = EVERYTHING) -> Watch:
        from bireme.sdk.local.run_follower import Watch

        return Watch(self.run, choice)

    def attending(self) -> AbstractContextManager[None]:
        return attendance.attending(self.run.path)

    def stacks(self, rank: int | None) -> tuple[RankStack, ...]:
        from bireme.sdk.local import rank_stacks  # here, because one verb needs it

        self._require_here()
        return rank_stacks.of(self.run, rank)

    def replica(self, given: str | int) -> str:
        job = self.run.desired().job
        found = rank_names.replica_named(job, given)
        if found is not None:
            return found
        # One that the job had before it was scaled has left its lines.
        if isinstance(given, str) and (self.run.logs / given).is_dir():
            return given
        raise rank_names.no_such_replica(self.id, job, given)

    def checkpoints_at(self) -> str:
        from bireme.runs import run_checkpoints

        return run_checkpoints.where(self.run.path)

    def python(self, environ: Mapping[str, str]) -> str:
        return self.run.context().python

    def curves(self) -> Curves:
        from bireme.runs.logs import log_metrics
        from bireme.runs.metrics import tensorboard
        from bireme.sdk.tensorboards import Curves

        return Curves(self.run.path / tensorboard.BOARD_FOLDER, log_metrics.feeds(self.run), self.run.exists)

    def stop(self) -> JobView:
        if self.run.is_active():
            self._require_here()
            control.stop(self.run)
            self._await_rest(lambda: not self.run.desired().job.policy.suspend)
        return self.view()

    def resume(self) -> JobView:
        self._require_here()
        control.resume(self.run)
        end = time.monotonic() + STOP_PATIENCE
        # Its runner may have been about to leave when it was woken, so it is looked after until it has heard.
        while control.is_called_back(self.run) and time.monotonic() < end:
            control.ensure_runner(self.run)
            time.sleep(_LOOK_EVERY)
        return self.view()

    def scale(self, replicas: Mapping[str, int]) -> JobView:
        self._require_here()
        phase = self.run.status().phase
        changed = scale_requests.resized(self.id, self.run.desired().job, replicas, phase)
        submit.require_room(changed, f"ask for fewer; `bireme show {self.id}` says what each asks for")
        # A gang restarts to have another size; it must not stop in order to wait for room.
        lack = submit.lack_now(self.run, changed, time.time())
        if lack:
            from bireme.sdk.local import run_views

            id = run_views.id_of(self.run)
            what = "ranks" if rank_names.counts_ranks(changed) else "replicas"
            raise errors.BadInput(
                f"{id} would stop and wait if it had {changed.total} {what}: it {lack}",
                hint="it continues as it is; make room first. To let it wait all the same: "
                f"bireme stop {id}, then scale and resume it",
            )
        control.resize(self.run, lambda job: scale_requests.resized(self.id, job, replicas, phase))
        return self.view()

    def remove(self) -> None:
        try:
            if self.run.is_active():
                self._require_here()
                if self.run.status().phase.is_final:
                    # It failed and was resumed: its user was not asked whether it is to be ended.
                    raise self._goes_on()
                control.discard(self.run)
            if self.run.is_held():
                self._await_rest()
            # It has ended, and its runner is about to leave; if it runs again, there is no lock.
            end = time.monotonic() + STOP_PATIENCE
            while (lock := control.hold_ended(self.run)) is None:
                if self.run.is_active() or time.monotonic() > end:
                    break
                time.sleep(_LOOK_EVERY)
            unless: Callable[[], bool] = partial(control.goes_on, self.run)
        except errors.OurBug:
            # Its files cannot be read, so no runner can be asked to end it; what no runner holds may go.
            lock, unless = self.run.hold(), lambda: False
            if lock is None:
                raise
        if lock is None:
            raise self._goes_on()
        # Held until it is gone: no runner takes it meanwhile. A resume that came before keeps it.
        with lock:
            from bireme.runs.ledger import Ledger

            if not Ledger(self.run.home).remove(self.run.id, unless):
                raise self._goes_on()

    def _goes_on(self) -> errors.BadInput:
        from bireme.sdk.local import run_views

        id = run_views.id_of(self.run)
        return errors.BadInput(
            f"{id} runs again: it was resumed a moment ago",
            hint=f"to end it and delete what it left: bireme rm --yes {id}",
        )

    def _require_here(self) -> None:
        context = self.run.context()
        if not context.is_of(machine.this_machine()):
            host = context.machine.host
            raise errors.BadInput(f"{self.id} belongs to {host}", hint=f"run the same command on {host}")

    def _await_rest(self, is_taken_back: Callable[[], bool] = lambda: False) -> None:
        grace = max((role.pod.grace for role in self.run.desired().job.roles), default=0.0)
        end = time.monotonic() + grace + STOP_PATIENCE
        while not control.is_at_rest(self.run) and not is_taken_back():
            if time.monotonic() > end:
                raise errors.Unreachable(
                    f"{self.id} has not stopped within {grace + STOP_PATIENCE:g} s",
                    hint=f"look at {self.run.path / 'runner.log'}",
                )
            time.sleep(_LOOK_EVERY)
