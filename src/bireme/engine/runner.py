"""How is one run carried on from wherever it stands to its end: the engine of a local job."""

from __future__ import annotations

import asyncio
import contextlib
import time

import msgspec

from bireme.backends.local import gpus, provenance, site
from bireme.backends.local.backend import LocalBackend
from bireme.backends.local.cgroups import Cgroups
from bireme.backends.local.warm import WarmLauncher
from bireme.engine.step import Stored, step
from bireme.model.decisions import Decision, Event, EventType
from bireme.model.replicas import Observation
from bireme.model.status import Phase, Status
from bireme.runs import files
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import Ledger

LONGEST_WAIT = 30.0
"""Seconds after which a runner looks unasked: a lost wake-up costs time, never correctness."""
_ROUND = 0.002
"""Seconds in which changes gather before a step looks at them all."""


class RunStore:
    """A run directory as the store of its one job."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self.status = run.status()

    async def load(self, key: str) -> Stored | None:
        desired = self._run.desired()
        job = desired.job
        if desired.deleted and not job.policy.suspend:
            policy = msgspec.structs.replace(job.policy, suspend=True)
            job = msgspec.structs.replace(job, policy=policy)
        return Stored(job, self.status, str(desired.generation))

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        # The status first: an event may be lost with us, a count may not.
        self._run.write_status(decision.status)
        self.status = decision.status
        self._run.append_events(decision.events, time.time())


def serve(run: RunDirectory) -> None:
    """Carry the run on until it has ended or is put aside; whoever calls this holds the run."""
    asyncio.run(_serve(run))


async def _serve(run: RunDirectory) -> None:
    changed = asyncio.Event()
    wake = run.wake_fd()
    loop = asyncio.get_running_loop()

    def woken() -> None:
        wake.drain()
        changed.set()

    loop.add_reader(wake.fileno(), woken)
    place = site.of(run)
    ledger = Ledger(run.home, gpus.capacity)
    try:
        async with (
            asyncio.TaskGroup() as tasks,
            WarmLauncher(run.home, place, warm=run.context().warm) as launcher,
        ):
            backend = LocalBackend(run, place, ledger, launcher, Cgroups.find(), tasks, changed.set)
            backend.recover()
            await _carry_on(run, backend, changed)
            backend.close()
            backend.sweep()
    finally:
        loop.remove_reader(wake.fileno())
        wake.close()


async def _carry_on(run: RunDirectory, backend: LocalBackend, changed: asyncio.Event) -> None:
    store = RunStore(run)
    shown: bytes = b""
    attempt = run.status().attempt
    while True:
        changed.clear()
        decision = await step(str(run.id), store, backend, time.time())
        assert decision is not None, "a run directory always has a job"
        shown = _show(run, backend, shown)
        attempt = _tell_changed_code(run, store, attempt)
        if not changed.is_set() and _is_at_rest(decision.status, backend):
            return
        await _wait(changed, decision.wake_at)


def _tell_changed_code(run: RunDirectory, store: RunStore, before: int) -> int:
    """Say once for each new attempt if the scripts are not any more what they were at the submission."""
    attempt = store.status.attempt
    if attempt == before:
        return before
    names = provenance.changed(run.context().code)
    if names:
        text = f"attempt {attempt} runs other code than the first: {', '.join(names)} changed since"
        run.append_events([Event(EventType.WARNING, "CodeChanged", text)], time.time())
    return attempt


def _is_at_rest(status: Status, backend: LocalBackend) -> bool:
    """Whether nothing is left to do until somebody edits the job."""
    if not (status.phase.is_final or status.phase is Phase.SUSPENDED):
        return False
    return not backend.holds and not any(one.is_alive for one in backend.replicas())


async def _wait(changed: asyncio.Event, wake_at: float | None) -> None:
    due = time.time() + LONGEST_WAIT if wake_at is None else min(wake_at, time.time() + LONGEST_WAIT)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, due - time.time())):
            await changed.wait()
    await asyncio.sleep(_ROUND)


def _show(run: RunDirectory, backend: LocalBackend, before: bytes) -> bytes:
    """Leave what is seen now where followers find it: they never talk to a runner."""
    text = msgspec.json.encode(Observation(tuple(backend.replicas())))
    if text != before:
        files.replace_quickly(run.path / "seen.json", text)
    return text
