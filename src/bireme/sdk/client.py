"""How does a program start, watch and end jobs: the verbs of the command line as methods."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from bireme import errors, kinds
from bireme.engine import control, submit
from bireme.engine.submit import Order
from bireme.model.job import Job
from bireme.runs import directory, machine, records
from bireme.runs.directory import RunDirectory
from bireme.runs.home import home as home_of
from bireme.runs.ledger import Ledger
from bireme.runs.logreading import Choice, LogLine
from bireme.sdk import following, orders, ranks, viewing
from bireme.sdk.following import Watch
from bireme.sdk.orders import Given, Ordered, Scene, Script
from bireme.sdk.views import CheckedJob, CheckView, JobSummary, JobView

STOP_PATIENCE = 30.0
"""Seconds beyond the longest grace of a job's replicas after which a stop counts as stuck."""
_LOOK_EVERY = 0.05

Since = float | datetime | timedelta | None
"""A time in seconds since 1970, a date, or how long ago."""


class JobHandle:
    """A job that was started; it is only a name, and may be dropped at any time."""

    def __init__(self, client: Client, run: RunDirectory, notes: tuple[str, ...] = ()) -> None:
        self.id = str(run.id)
        self.key = f"{run.id.name}#{run.id.number}"
        """Names this very run, even when its job is run again."""
        self.notes = notes
        """What a person should know: what was changed, what is not used here."""
        self._client = client

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def view(self) -> JobView:
        return self._client.job(self.key)

    def wait(self, timeout: float | None = None) -> JobView:
        return self._client.wait(self.key, timeout)

    def logs(self, replica: str | None = None, *, follow: bool = False) -> Iterator[LogLine]:
        return self._client.logs(self.key, replica, follow=follow)

    def watch(self) -> Watch:
        return self._client.watch(self.key)

    def stop(self) -> JobView:
        return self._client.stop(self.key)

    def resume(self) -> JobView:
        return self._client.resume(self.key)

    def remove(self) -> None:
        self._client.remove(self.key)


class Client:
    """Jobs on this machine. Every method reads the run directories anew, so nothing has to be closed."""

    def __init__(self, home: Path | str | None = None, environ: Mapping[str, str] | None = None) -> None:
        """`home` holds the runs: by default BIREME_HOME, else the platform's folder for data."""
        self._environ = dict(os.environ if environ is None else environ)
        given = self._environ if home is None else {**self._environ, "BIREME_HOME": str(home)}
        self.home = home_of(given)

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
    ) -> JobHandle:
        """Starts a script and returns at once; `retries` says how many crashes are forgiven."""
        asked = Script(
            path=str(script),
            args=tuple(args),
            name=name,
            workers=workers,
            gpu=gpu,
            cpu=cpu,
            memory=memory,
            retries=retries,
            env=dict(env or {}),
        )
        given = Given(python=python, warm=warm, detached=True)
        return self.start(orders.of_script(asked, given, self.scene()))[0]

    def submit(
        self, manifest: str | Path | Mapping[str, object], given: Given | None = None, *, name: str = ""
    ) -> tuple[JobHandle, ...]:
        """Starts every job of a manifest: a path, a text of several lines, or plain data."""
        return self.start(self._read(manifest, given or Given(detached=True), name))

    def start(self, ordered: Ordered) -> tuple[JobHandle, ...]:
        """Starts orders, all of them or, if one cannot run here, none."""
        if len(ordered.orders) > 1:
            for order in ordered.orders:
                self._refuse_active(order.job.name)
                submit.check(self.home, order)
        return tuple(self._start(order) for order in ordered.orders)

    def check(self, manifest: str | Path | Mapping[str, object], given: Given | None = None) -> CheckView:
        """Says whether a manifest is valid, and what stands in the way of running it here; starts nothing."""
        return self.checked(self._read(manifest, given or Given(), ""))

    def checked(self, ordered: Ordered) -> CheckView:
        pairs = zip(ordered.orders, ordered.read, strict=True)
        return CheckView(
            jobs=tuple(self._check(order, read.file, read.line) for order, read in pairs),
            warnings=ordered.warnings,
        )

    def render(self, manifest: str | Path | Mapping[str, object]) -> str:
        """The manifest in full, as YAML: defaults filled in, the short form as the job that it means."""
        return orders.rendered(self._read(manifest, Given(), ""))

    # Looking

    def jobs(self, all: bool = False) -> tuple[JobSummary, ...]:
        """The jobs that have not ended, the newest first; with `all` also those that have."""
        here = machine.this_machine()
        rows = Ledger(self.home).runs()
        chosen = (row for row in rows if row.phase is not None and (all or not row.phase.is_final))
        return tuple(
            summary
            for row in chosen
            if (summary := self._summary(RunDirectory(self.home, row.id), here)) is not None
        )

    def job(self, name: str) -> JobView:
        return viewing.view(self.find(name))

    def wait(self, name: str, timeout: float | None = None) -> JobView:
        """Waits until the job has ended; raises Unreachable if that takes longer than the timeout."""
        run = self.find(name)
        end = None if timeout is None else time.monotonic() + timeout
        watch = Watch(run)
        try:
            while not watch.glance().phase.is_final:
                if not watch.exists():
                    raise errors.BadInput(f"{run.id} was removed while it was waited for")
                if end is not None and time.monotonic() >= end:
                    raise errors.Unreachable(
                        f"{run.id} has not ended within {timeout:g} s: it is {watch.glance().phase}",
                        hint=f"it goes on; `bireme show {run.id}` says what it does",
                    )
                watch.revive()
                time.sleep(_LOOK_EVERY)
                watch.refresh()
        finally:
            watch.close()
        return viewing.view(run)

    def logs(
        self,
        name: str,
        replica: str | None = None,
        *,
        follow: bool = False,
        since: Since = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """The lines of all replicas in the order of their times, or of one; `follow` waits for more."""
        watch = self.watch(name, replica, since=since, tail=tail)
        try:
            yield from watch.drain()
            if not follow:
                return
            pace = following.Pace()
            while not (watch.is_over() or not watch.exists()):
                lines = watch.poll()
                yield from lines
                watch.revive()
                time.sleep(pace.pause(bool(lines)))
            yield from watch.drain()
        finally:
            watch.close()

    def watch(
        self, name: str, replica: str | None = None, *, since: Since = None, tail: int | None = None
    ) -> Watch:
        """A follower of a run's lines and state, for whoever shows them as they come."""
        run = self.find(name)
        full = None if replica is None else self._replica(run, replica)
        return Watch(run, Choice(replica=full, since=_moment(since), last=tail))

    # Changing

    def stop(self, name: str) -> JobView:
        """Puts a job aside (SIGTERM, grace, SIGKILL) and returns once it rests; it can be resumed."""
        run = self.find(name)
        if run.is_active():
            self._require_here(run)
            control.stop(run)
            self._await_rest(run)
        return viewing.view(run)

    def resume(self, name: str) -> JobView:
        """Lets a job that was stopped go on with its next attempt."""
        run = self.find(name)
        self._require_here(run)
        control.resume(run)
        return viewing.view(run)

    def scale(self, name: str, **replicas: int) -> JobView:
        """Changes how many replicas roles have: `scale("mnist", worker=4)`."""
        run = self.find(name)
        self._require_here(run)
        phase = run.status().phase
        if phase.is_final:
            raise errors.BadInput(
                f"{run.id} has ended ({phase})", hint="only a job that goes on can be scaled"
            )
        _check_scale(run, replicas)
        for role, count in replicas.items():
            control.scale(run, role, count)
        return viewing.view(run)

    def remove(self, name: str) -> None:
        """Ends a job if it has not ended, and deletes everything that it left."""
        run = self.find(name)
        try:
            if run.is_active():
                self._require_here(run)
                control.discard(run)
            if run.is_held():
                self._await_rest(run)
        except errors.OurBug:
            # Its files cannot be read, so nobody can be told to end it; what nobody holds may go.
            if run.is_held():
                raise
        Ledger(self.home).remove(run.id)

    def revive(self) -> tuple[str, ...]:
        """Carries on the jobs of this machine whose runner died, and returns their ids."""
        return tuple(str(run.id) for run in control.revive(self.home))

    # Shared with the command line

    def find(self, name: str) -> RunDirectory:
        """The run that a name means: `mnist` the newest, `mnist#2` the second."""
        return directory.find(self.home, *records.parse_run(name))

    def scene(self) -> Scene:
        return Scene(Path.cwd(), self._environ)

    def _read(self, manifest: str | Path | Mapping[str, object], given: Given, name: str) -> Ordered:
        from bireme.manifest import (
            source,  # here, because YAML takes a while to import, and scripts need none
        )

        if isinstance(manifest, Mapping):
            return orders.of_manifest(manifest, given, self.scene(), name)
        if isinstance(manifest, str) and "\n" in manifest:
            documents = source.read_text(manifest, "<text>")
        else:
            documents = source.read_path(Path(manifest))
        return orders.of_documents(documents, given, self.scene(), name)

    def _start(self, order: Order) -> JobHandle:
        submitted = submit.submit(self.home, order)
        return JobHandle(self, submitted.run, submitted.notes)

    def _check(self, order: Order, file: str, line: int) -> CheckedJob:
        here = ""
        notes: tuple[str, ...] = ()
        try:
            _, notes = submit.check(self.home, order)
        except errors.BiremeError as error:
            here = str(error)
        replicas = {role.name: role.replicas for role in order.job.roles}
        return CheckedJob(
            kind=str(order.job.kind),
            name=order.job.name,
            file=file,
            line=line,
            replicas=replicas,
            here=here,
            notes=notes,
        )

    def _refuse_active(self, name: str) -> None:
        last = directory.newest(self.home, name)
        if last is not None and last.is_active():
            raise errors.BadInput(
                f"{last.id} is still active ({last.status().phase})", hint=f"end it with `bireme rm {name}`"
            )

    def _summary(self, run: RunDirectory, here: records.Machine) -> JobSummary | None:
        try:
            return viewing.summary(run, here)
        except errors.BiremeError:
            return None  # it was removed a moment ago, or is damaged: `show` says which

    def _replica(self, run: RunDirectory, given: str) -> str:
        by_short = ranks.replica_names(run.desired().job)
        full = by_short.get(given, given)
        if full in by_short.values() or (run.logs / full).is_dir():
            return full
        known = ", ".join(list(by_short)[:8])
        raise errors.BadInput(f"{run.id} has no replica {given}", hint=f"its replicas are {known}")

    def _require_here(self, run: RunDirectory) -> None:
        context = run.context()
        if not context.is_of(machine.this_machine()):
            host = context.machine.host
            raise errors.BadInput(f"{run.id} belongs to {host}", hint=f"run the same command on {host}")

    def _await_rest(self, run: RunDirectory) -> None:
        grace = max((role.pod.grace for role in run.desired().job.roles), default=0.0)
        end = time.monotonic() + grace + STOP_PATIENCE
        while not control.is_at_rest(run):
            if time.monotonic() > end:
                raise errors.Unreachable(
                    f"{run.id} has not come to rest within {grace + STOP_PATIENCE:g} s",
                    hint=f"look at {run.path / 'runner.log'}",
                )
            time.sleep(_LOOK_EVERY)


def _check_scale(run: RunDirectory, replicas: Mapping[str, int]) -> None:
    job = run.desired().job
    for role, count in replicas.items():
        if job.role(role) is None:
            known = ", ".join(one.name for one in job.roles)
            raise errors.BadInput(f"{run.id} has no role {role}", hint=f"its roles are {known}")
        if count < 0:
            raise errors.BadInput(f"a role has at least 0 replicas, got {role}={count}")
    problems = list(kinds.module(job.kind).validate(_scaled(job, replicas)))
    if problems:
        raise errors.BadInput(f"{run.id} cannot be scaled so: {problems[0].field}: {problems[0].text}")


def _scaled(job: Job, replicas: Mapping[str, int]) -> Job:
    roles = tuple(replace(one, replicas=replicas.get(one.name, one.replicas)) for one in job.roles)
    return replace(job, roles=roles)


def _moment(since: Since) -> float | None:
    match since:
        case datetime():
            return since.timestamp()
        case timedelta():
            return time.time() - since.total_seconds()
        case _:
            return since
