"""Takes the steps of one run from wherever it stands to its end: the engine of a local job."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from random import Random

import msgspec

from bireme.backends.local import run_environment
from bireme.backends.local.backend import LocalBackend
from bireme.backends.local.cgroups import Cgroups
from bireme.backends.local.preflight import gpus, provenance
from bireme.backends.local.processes import Input, LocalProcesses
from bireme.backends.local.warm.launcher import WarmLauncher
from bireme.core.clock import Clock
from bireme.engine.step import Stored, step
from bireme.model.decisions import Decision, Event, EventType
from bireme.model.replicas import Observation
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Backlog, Journal
from bireme.runs.ledger import Ledger
from bireme.runs.replica_journal import Entry
from bireme.runs.storage import disk_room, files
from bireme.runs.storage.disk_room import LAST_TRIES, PASSING, DiskRoom

LONGEST_WAIT = 30.0
"""Seconds after which a runner looks unasked: a lost wake-up costs time, never correctness."""
_ROUND = 0.002
"""Seconds in which changes gather before a step looks at them all."""


class RunStore:
    """A run directory as the store of its one job.

    Where a decision cannot be recorded, the step waits: nothing is done that is not written down, and what
    happens to the replicas meanwhile is seen by the next step.
    """

    def __init__(self, run: RunDirectory, journal: Backlog[Entry], clock: Clock) -> None:
        self.run = run
        self._clock = clock
        self._journal = journal
        self._room = journal.room
        self.status = run.status()

    async def load(self, key: str) -> Stored | None:
        desired = self.run.desired()
        job = desired.job
        if desired.deleted and not job.policy.suspend:
            policy = msgspec.structs.replace(job.policy, suspend=True)
            job = msgspec.structs.replace(job, policy=policy)
        return Stored(job, self.status, str(desired.generation))

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        # The journal first: the status must not count an end that the next runner would not know of.
        await self._room.until(self._journal.flush)
        # Then the status: an event may be lost with us, a count may not.
        await self._room.until(lambda: self.run.write_status(decision.status))
        self.status = decision.status
        await self.tell(decision.events)

    async def tell(self, events: Iterable[Event]) -> None:
        told = tuple(events)

        def write() -> None:
            self.run.append_events(told, self._clock.time())

        if self.status.phase.is_at_rest:
            # The truth is written: no command that removes or resumes the job waits long for its events.
            await self._room.within(LAST_TRIES, write)
        else:
            await self._room.until(write)


async def serve(run: RunDirectory, stdin: Input | None, clock: Clock, chance: Random) -> None:
    """Run the job until it has ended or is suspended; the caller holds the run."""
    changed = asyncio.Event()
    wake = run.wake_fd()
    loop = asyncio.get_running_loop()

    def woken() -> None:
        wake.drain()
        changed.set()

    loop.add_reader(wake.fileno(), woken)
    place = msgspec.structs.replace(run_environment.of(run), stdin=stdin)
    ledger = Ledger(run.home, gpus.capacity, chance=chance)
    room = DiskRoom(run.path, clock)
    disk_room.keep_reserve(run.path)
    try:
        launch = await room.until(
            lambda: WarmLauncher(run.home, place, clock, warm=run.context().options.warm)
        )
        journal: Backlog[Entry] = Backlog(Journal(run.journal_path, Entry), room)
        async with asyncio.TaskGroup() as tasks, launch as launcher:
            processes = LocalProcesses(launcher, Cgroups.find())
            backend = LocalBackend(
                run.id, place, ledger, processes, journal, tasks, changed.set, clock, chance
            )
            await carry_on(RunStore(run, journal, clock), backend, changed, clock)
        disk_room.release_reserve(run.path)
    finally:
        loop.remove_reader(wake.fileno())
        wake.close()


async def carry_on(store: RunStore, backend: LocalBackend, changed: asyncio.Event, clock: Clock) -> None:
    """Take step after step until the job is at rest and everything is written; nothing of it lives then."""
    run, room = store.run, backend.room
    backend.recover()
    shown: bytes = b""
    attempt = run.status().attempt
    while True:
        changed.clear()
        lacks = room.lacks
        decision = await step(str(run.id), store, backend, clock.time())
        assert decision is not None, "a run directory always has a job"
        shown = _show(run, backend, shown)
        if store.status.attempt != attempt:
            # Once for each new attempt: its scripts may not be any more what they were at the submission.
            attempt = store.status.attempt
            if told := provenance.told(run.context().code):
                text = f"attempt {attempt} does not have the code of the first: {told}"
                await store.tell((Event(EventType.WARNING, "CodeChanged", text),))
        room.settle()
        phase = decision.status.phase
        is_alive = any(replica.is_alive for replica in backend.replicas())
        at_rest = phase.is_at_rest and not is_alive and not changed.is_set()
        # Whether the next runner would know all that matters; a claim that is left over counts as dead.
        is_told = phase.is_final or not backend.journal.is_behind
        if gives_up := room.has_waited(at_rest and is_told):
            room.give_up()
        is_written = room.lacks == lacks and not backend.journal.is_behind
        if (is_written or gives_up) and (event := room.found()):
            await store.tell((event,))
            disk_room.keep_reserve(run.path)
        if at_rest and not changed.is_set() and (gives_up or not (room.is_short or backend.holds)):
            backend.close()
            return
        longest = room.pause if room.is_short else LONGEST_WAIT
        now = clock.time()
        due = now + longest if decision.wake_at is None else min(decision.wake_at, now + longest)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, due - now)):
                await changed.wait()
        await asyncio.sleep(_ROUND)


def _show(run: RunDirectory, backend: LocalBackend, before: bytes) -> bytes:
    """Leave what is seen now where followers find it: they never talk to a runner."""
    text = msgspec.json.encode(Observation(tuple(backend.replicas())))
    if text != before:
        try:
            files.replace_quickly(run.path / "seen.json", text)
        except PASSING as error:
            backend.room.lack(error)
            return before
    return text
