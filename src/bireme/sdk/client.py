"""Starts, watches and ends jobs from a program: the verbs of the command line as methods."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bireme import errors
from bireme.core.machine.retention import Limits
from bireme.manifest.diagnostics import Diagnostics
from bireme.model.status import Phase
from bireme.runs.home import home as home_of
from bireme.runs.logs.log_reader import LogLine, LogSelection
from bireme.sdk import settings, submissions
from bireme.sdk.backends import BackendName, Following, FoundJob, Pace, Where
from bireme.sdk.lookup import Places
from bireme.sdk.submissions import Invocation, RunOptions, Script, SubmissionBatch
from bireme.sdk.views import CheckView, JobSummary, JobView, RankStack

if TYPE_CHECKING:  # imported when they are asked for: most verbs do without checkpoints
    from bireme.runs.run_checkpoints import Checkpoint

_LOOK_EVERY = 0.05

Manifest = str | Path | Mapping[str, object]
"""A path, a text of several lines, or plain data."""
Since = float | datetime | timedelta | None
"""A time in seconds since 1970, a date, or how long ago."""


class JobHandle:
    """A job that was started or found; it is only a name, and may be dropped at any time."""

    def __init__(self, found: FoundJob, notes: tuple[str, ...] = ()) -> None:
        self.id = found.id
        self.key = found.key
        """Names this very job, even when it is run again."""
        self.notes = notes
        """What a person should know: what was changed, what is not used here."""
        self._found = found

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def view(self) -> JobView:
        return self._found.view()

    def stacks(self, rank: int | None = None) -> tuple[RankStack, ...]:
        """The present Python stack of each rank, or of one; the ranks continue undisturbed."""
        return self._found.stacks(rank)

    def attending(self) -> AbstractContextManager[None]:
        """Says while it lasts that a person follows at the terminal and can answer the job."""
        return self._found.attending()

    def wait(self, timeout: float | None = None) -> JobView:
        """Waits until the job has ended; raises Unreachable if that takes longer than the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        watch = self._found.watch(LogSelection(last=0))
        try:
            while not watch.glance().phase.is_final:
                if not watch.exists():
                    raise errors.BadInput(f"{self.id} was removed while it was waited for")
                if end is not None and time.monotonic() >= end:
                    phase = watch.glance().phase
                    goes_on = f"it continues; `bireme show {self.id}` says what it does"
                    is_stopped = phase is Phase.SUSPENDED
                    raise errors.Unreachable(
                        f"{self.id} has not ended within {timeout:g} s: it is {phase}",
                        hint=f"`bireme resume {self.id}` resumes it" if is_stopped else goes_on,
                    )
                watch.revive()
                time.sleep(_LOOK_EVERY)
                watch.refresh()
        finally:
            watch.close()
        return self.view()

    def logs(
        self,
        replica: str | int | None = None,
        *,
        follow: bool = False,
        since: Since = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """The lines of all replicas in the order of their times; `follow` waits for more.

        `replica` chooses one, by its rank or by its name: `1`, `"worker-0"`.
        """
        watch = self.watch(replica, since=since, tail=tail)
        try:
            yield from watch.drain()
            if not follow:
                return
            pace = Pace()
            while not (watch.is_over() or not watch.exists()):
                lines = watch.poll()
                yield from lines
                watch.revive()
                time.sleep(pace.pause(bool(lines)))
            yield from watch.drain()
        finally:
            watch.close()

    def watch(
        self, replica: str | int | None = None, *, since: Since = None, tail: int | None = None
    ) -> Following:
        """A follower of a job's lines and state, for a program that shows them as they come."""
        full = None if replica is None else self._found.replica(replica)
        match since:
            case datetime():
                since = since.timestamp()
            case timedelta():
                since = time.time() - since.total_seconds()
        return self._found.watch(LogSelection(replica=full, since=since, last=tail))

    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that its script saved, the oldest first."""
        from bireme.runs import run_checkpoints

        return run_checkpoints.listed(self._found.checkpoints_at())

    def stop(self) -> JobView:
        """Suspends the job (SIGTERM, grace, SIGKILL) and returns once it has stopped; it can be resumed."""
        return self._found.stop()

    def resume(self) -> JobView:
        """Resumes a job that was stopped, with its next attempt."""
        return self._found.resume()

    def scale(self, **replicas: int) -> JobView:
        """Changes how many replicas roles have."""
        return self._found.scale(replicas)

    def remove(self) -> None:
        """Ends the job if it has not ended, and deletes everything that it left."""
        self._found.remove()


class Client:
    """Jobs on this machine and in clusters. Every method looks anew, so nothing has to be closed."""

    def __init__(
        self,
        home: Path | str | None = None,
        environ: Mapping[str, str] | None = None,
        *,
        on: str = "",
        context: str = "",
        namespace: str = "",
        kubeconfig: str = "",
    ) -> None:
        """`home` holds the runs: by default BIREME_HOME, else the platform's folder for data.

        `on` is `local` or `kubernetes`: where jobs are started, and the only place where they are looked for.
        Left open, jobs are started where BIREME_ON says, else on this machine, and found wherever they are.
        """
        self._environ = dict(os.environ if environ is None else environ)
        given = self._environ if home is None else {**self._environ, "BIREME_HOME": str(home)}
        self.home = home_of(given)
        self.places = Places(self.home, self._environ, Where(on, context, namespace, kubeconfig))

    # Starting

    def run(
        self,
        script: str | Path,
        args: Sequence[str] = (),
        *,
        workers: int = 1,
        gpu: int = 0,
        cpu: str = "",
        memory: str = "",
        retries: int = 3,
        name: str = "",
        env: Mapping[str, str] | None = None,
        python: str = "",
        warm: bool = True,
        image: str = "",
        continues: str = "",
    ) -> JobHandle:
        """Starts a script and returns at once; `retries` says how many crashes are tolerated.

        `continues` names a job, or a folder, whose newest checkpoint it continues from; `NAME@STEP`
        is that of a step.
        """
        asked = Script(
            path=str(script),
            args=tuple(args),
            name=name,
            workers=workers,
            gpu=gpu,
            cpu=cpu,
            memory=memory,
            retries=retries,
        )
        options = RunOptions(
            env=env or {}, python=python, warm=warm, detached=True, image=image, continues=continues
        )
        return self.start(self.prepare_script(asked, options))[0]

    def submit(
        self, manifest: Manifest, options: RunOptions | None = None, *, name: str = ""
    ) -> tuple[JobHandle, ...]:
        """Starts every job of a manifest: a path, a text of several lines, or plain data."""
        return self.start(self.prepare([manifest], options or RunOptions(detached=True), name))

    def prepare_script(self, script: Script, options: RunOptions) -> SubmissionBatch:
        """What `start` takes for a script; nothing is started yet."""
        return submissions.of_script(script, self._with_origin(options), self._invocation())

    def prepare(
        self,
        manifests: Sequence[Manifest],
        options: RunOptions,
        name: str = "",
        stdin: Callable[[int], bytes] | None = None,
    ) -> SubmissionBatch:
        """What `start` takes for manifests; a name replaces that of the only job.

        `stdin` reads at most so many bytes of what the path `-` stands for.
        """
        options, invocation = self._with_origin(options), self._invocation()
        if len(manifests) == 1 and isinstance(manifests[0], Mapping):
            return submissions.of_manifest(manifests[0], options, invocation, name)
        diagnostics = Diagnostics()
        texts = [manifest for manifest in manifests if not isinstance(manifest, Mapping)]
        documents = submissions.documents(texts, stdin, diagnostics)
        return submissions.of_documents(documents, options, invocation, name, diagnostics)

    def start(self, batch: SubmissionBatch) -> tuple[JobHandle, ...]:
        """Starts every job of a batch or, if one cannot run there, none."""
        is_here = self.places.backend is BackendName.LOCAL
        # Read before: a mistake in the settings is no reason to start a job and then complain.
        limits = settings.limits(self.home, self._environ) if is_here else Limits()
        started = tuple(JobHandle(job.found, job.notes) for job in self.places.chosen().start(batch))
        if started and limits:
            from bireme.sdk.local import prune  # after the start: no job waits for what older ones left

            if said := prune.swept(self.home, limits, time.time()):
                started[0].notes = (*started[0].notes, said)
        return started

    def check(self, manifest: Manifest, options: RunOptions | None = None) -> CheckView:
        """Says whether a manifest is valid, and what stands in the way of running it; starts nothing."""
        return self.checked(self.prepare([manifest], options or RunOptions()))

    def checked(self, batch: SubmissionBatch) -> CheckView:
        return self.places.chosen().checked(batch)

    def render(self, manifest: Manifest) -> str:
        """The manifest in full, as YAML: defaults filled in, the short form as the job that it means."""
        return submissions.rendered(self.prepare([manifest], RunOptions()))

    # Looking

    def jobs(self, all: bool = False) -> tuple[JobSummary, ...]:
        """The jobs that have not ended, the newest first; with `all` also those that have.

        A cluster that does not answer within two seconds is left out; `unreached` says so.
        """
        return self.places.jobs(all)

    @property
    def unreached(self) -> tuple[str, ...]:
        """A sentence for each cluster that did not answer when jobs were last listed."""
        return self.places.unreached

    @property
    def shortage(self) -> str:
        """A sentence if the disk of the runs is full, so that what is shown may be old; else nothing."""
        from bireme.sdk.local import run_follower

        return run_follower.shortage(self.home)

    def find(self, name: str) -> JobHandle:
        """The job that a name means: `mnist` the newest, `mnist#2` the second run on this machine.

        Where no job has this name, the only one whose name begins so is meant.
        """
        return JobHandle(self.places.find(name))

    def job(self, name: str) -> JobView:
        return self.find(name).view()

    def wait(self, name: str, timeout: float | None = None) -> JobView:
        """Waits until the job has ended; raises Unreachable if that takes longer than the timeout."""
        return self.find(name).wait(timeout)

    def logs(
        self,
        name: str,
        replica: str | int | None = None,
        *,
        follow: bool = False,
        since: Since = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """The lines of all replicas in the order of their times; `follow` waits for more.

        `replica` chooses one, by its rank or by its name: `1`, `"worker-0"`.
        """
        return self.find(name).logs(replica, follow=follow, since=since, tail=tail)

    def watch(
        self, name: str, replica: str | int | None = None, *, since: Since = None, tail: int | None = None
    ) -> Following:
        """A follower of a job's lines and state, for a program that shows them as they come."""
        return self.find(name).watch(replica, since=since, tail=tail)

    # Changing

    def stop(self, name: str) -> JobView:
        """Suspends a job (SIGTERM, grace, SIGKILL) and returns once it has stopped; it can be resumed."""
        return self.find(name).stop()

    def resume(self, name: str) -> JobView:
        """Resumes a job that was stopped, with its next attempt."""
        return self.find(name).resume()

    def scale(self, name: str, **replicas: int) -> JobView:
        """Changes how many replicas roles have: `scale("mnist", worker=4)`."""
        return self.find(name).scale(**replicas)

    def remove(self, name: str) -> None:
        """Ends a job if it has not ended, and deletes everything that it left; takes its full name only."""
        JobHandle(self.places.exact(name)).remove()

    def revive(self) -> tuple[str, ...]:
        """Restarts the runners of this machine's jobs that died, and returns the ids of the jobs."""
        return self.places.local.revive()

    def _with_origin(self, options: RunOptions) -> RunOptions:
        """The options with the variable that names the checkpoint which a script starts from, if any."""
        if not options.continues:
            return options
        from bireme.sdk import checkpoint_names  # here, because it loads the checkpoint modules

        origin = checkpoint_names.origin(self.places, options.continues)
        return replace(options, env={**options.env, submissions.ORIGIN: origin})

    def _invocation(self) -> Invocation:
        try:
            return Invocation(Path.cwd(), self._environ)
        except FileNotFoundError:
            raise errors.BadInput(
                "the folder that this was started in does not exist any more", hint="cd to one that does"
            ) from None
