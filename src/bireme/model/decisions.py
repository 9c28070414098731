"""Holds what the control logic decides: the next status, and the actions that lead to it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bireme.model.pods import PodSpec, Resources
from bireme.model.replicas import Part
from bireme.model.status import Status


class SharedFile(Struct, frozen=True):
    """A file that replicas find at a path: a ConfigMap in a cluster, a file here."""

    path: str
    text: str
    mode: int = 0o444


class Demand(Struct, frozen=True):
    """The resources and ports that one replica needs before it may start."""

    replica: str
    resources: Resources
    ports: tuple[str, ...] = ()


class Admit(Struct, frozen=True, tag="admit"):
    """Ask for the resources and addresses of an attempt, for all of its replicas or for none.

    It replaces what the job held before; asking again for the same is harmless.
    """

    attempt: int
    demands: tuple[Demand, ...]


class Release(Struct, frozen=True, tag="release"):
    """Give back all resources and addresses."""


class Start(Struct, frozen=True, tag="start"):
    """Bring a replica into being, fully wired."""

    replica: str
    role: str
    index: int
    attempt: int
    pod: PodSpec
    restarts_in_place: bool
    restarts_always: bool = False
    main: str = ""


class Stop(Struct, frozen=True, tag="stop"):
    """Remove the replica with this uid: SIGTERM, grace, SIGKILL; a dead one is only forgotten."""

    replica: str
    uid: str
    grace: float | None = None
    """Seconds; None means the replica's own."""
    for_good: bool = False
    """No replica of this name comes back soon: what makes it reachable goes with it."""


class Abandon(Struct, frozen=True, tag="abandon"):
    """Strike off a replica at once: its node will never report its end, or need not any more."""

    replica: str
    uid: str


class Repair(Struct, frozen=True, tag="repair"):
    """Make a part of the job that is no replica say what the job says now."""

    part: Part


class Remind(Struct, frozen=True, tag="remind"):
    """Makes the gang scheduler look again at a job for which it found no place."""


Action = Admit | Release | Start | Stop | Abandon | Repair | Remind


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


class Event(Struct, frozen=True):
    """Something worth telling: about the job, in a sentence."""

    type: EventType
    reason: str
    message: str


class Decision(Struct, frozen=True):
    """The next status, what to do, what to tell, and when to look again without being woken."""

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    files: tuple[SharedFile, ...] = ()
    wake_at: float | None = None
    record_by: float | None = None
    """Until when the status may wait to be recorded; None means that it is recorded before any action."""
