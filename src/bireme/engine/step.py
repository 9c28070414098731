"""Takes one step of a job: see, decide, record, act.

A decision is recorded before it is carried out. A step that dies in between loses nothing: the next one sees
what is there and decides again, and a loss that was counted is remembered as counted. The one exception is a
part of the decision itself (`Decision.record_by`, see `core.recording`): a status from which nothing would be
missed may be recorded later than the actions beside it are carried out, but not later than it says.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from bireme.core import recording, validation
from bireme.core.reconcile import reconcile
from bireme.model.decisions import Action, Decision, SharedFile
from bireme.model.job import Job
from bireme.model.replicas import Observation
from bireme.model.stored import Stored as Stored


class Conflict(Exception):
    """Another process wrote in between: nothing was recorded, and the step is to be taken again."""


class Store(Protocol):
    """Where jobs and their statuses are kept."""

    async def load(self, key: str) -> Stored | None:
        """The job, or None if it is gone."""

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        """Keep the decision's status and events, or raise Conflict.

        Where the decision has a `record_by`, its status may be kept as late as that: until then the next
        `load` gives the old status, and the time.
        """


class Backend(Protocol):
    """Where replicas run."""

    async def see(self, key: str, stored: Stored) -> Observation:
        """Look at everything that belongs to the job; never on a view older than our own last write."""

    async def publish(self, key: str, files: tuple[SharedFile, ...]) -> None:
        """Keep the files that the replicas share as they should be."""

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> bool:
        """Carry out the actions in their order, or at once where it does not matter.

        What goes wrong is seen by the next look, not raised. Returns whether that look is due at once:
        something was refused, or there was no time for everything.
        """


async def step(key: str, store: Store, backend: Backend, now: float) -> Decision | None:
    """Take one step for a job; None when there is no such job."""
    stored = await store.load(key)
    if stored is None:
        return None
    if stored.problem:
        decision = validation.reject(stored.job, stored.status, stored.problem, now)
    else:
        observation = await backend.see(key, stored)
        decision = reconcile(stored.job, stored.status, observation, now)
        if stored.record_by is not None:
            decision = recording.put_off(stored.job, stored.status, decision, stored.record_by, now)
    # The order is the safety of the whole. Recorded first: a replica that was stopped before its loss was
    # counted would be gone when the next step looks, and the loss would never count against the limit; a
    # conflict here ends the step while nothing has been done. Files before actions: a replica that starts
    # reads them, and would find an older list of hosts. Actions last: each can be repeated, because the next
    # step sees what is there and asks only for what is still missing.
    if decision.status != stored.status or decision.events:
        await store.record(key, stored, decision)
    if decision.files:
        await backend.publish(key, decision.files)
    if decision.actions and await backend.act(key, stored.job, decision.actions):
        return replace(decision, wake_at=now)
    return decision
