"""Holds what is remembered about a job: conditions, counts and budgets, and nothing anywhere else."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class ConditionType(StrEnum):
    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    SUSPENDED = "Suspended"
    FAILED = "Failed"


class Phase(StrEnum):
    """The state of a job in one word, for users to read; a function of its status."""

    CREATED = "Created"
    QUEUED = "Queued"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_final(self) -> bool:
        return self in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is to be done for the job until its user edits it."""
        return self.is_final or self is Phase.SUSPENDED


class Condition(Struct, frozen=True):
    type: ConditionType
    status: bool
    reason: str
    message: str
    updated: float
    changed: float


class Counts(Struct, frozen=True):
    """The numbers of replicas of a role that are active, succeeded or failed."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Retry(Struct, frozen=True, omit_defaults=True):
    """A replica that failed and was or will be replaced: how often, and not before when."""

    failures: int
    not_before: float


class RefusedStart(Struct, frozen=True, omit_defaults=True):
    """A start that the place refused: how often, and not before when a replica of the job is tried again."""

    replica: str
    failures: int
    not_before: float


class Sighting(Struct, frozen=True, omit_defaults=True):
    """The replica last seen under a name, and how many of its losses are counted."""

    uid: str
    losses: int = 0
    closed: bool = False
    """Its end is counted or was our own wish: that it vanishes is no news."""


class Blame(Struct, frozen=True, omit_defaults=True):
    """The crash that ended the last attempt, or the last replica that was replaced."""

    replica: str
    role: str
    index: int
    attempt: int
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    """What its place says of its end."""
    error: str = ""
    """The error in a line, as the rank told it; empty where it told nothing."""
    signature: str = ""
    """The same for the same error at the same place; empty where another attempt may well end otherwise."""


class AttemptProgress(Struct, frozen=True, omit_defaults=True):
    """The progress of earlier attempts, and the losses before it, which no longer count against a budget."""

    step: int = -1
    saved: int = -1
    crashes: int = 0
    evictions: int = 0
    lasted: bool = False
    """All replicas of an attempt ran for long: it had begun, whether it told of steps or not."""


class Status(Struct, frozen=True, omit_defaults=True):
    """The whole memory of a job: any process may carry on from it."""

    conditions: tuple[Condition, ...] = ()
    replicas: dict[str, Counts] = {}
    """Counts by role type, as users of the Kubeflow kinds read them."""
    started: float | None = None
    completed: float | None = None
    attempt: int = 0
    crashes: int = 0
    evictions: int = 0
    sightings: dict[str, Sighting] = {}
    """What was seen of this attempt, by replica name, so that each loss counts once."""
    done: tuple[str, ...] = ()
    """Replicas of this attempt that succeeded: they are never run again, even if their traces are removed."""
    retries: dict[str, Retry] = {}
    """Replicas of this attempt that failed before; the key "" stands for the gang."""
    refusal: RefusedStart | None = None
    """The last refused start, until that replica is there; until then the others are not tried."""
    waiting: str = ""
    """Why the job waits for its resources, or an empty text."""
    trouble: str = ""
    """The last thing that did not work and is tried again."""
    fence: int = 0
    """The last attempt that began while a replica of an earlier one may still live out of our reach."""
    scale: dict[str, int] = {}
    """The size with which the gang of this attempt began, by role; empty before a replica was started."""
    wished: int = 0
    """The last attempt that began by its user's wish: what is left of the one before is given time to end."""
    resumes: int = 0
    """How many of the job's resumptions are heeded."""
    blame: Blame | None = None
    progress: AttemptProgress = AttemptProgress()
    expired: bool = False
    """Its time to live after the end is over."""

    def condition(self, type: ConditionType) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type is type), None)

    def holds(self, type: ConditionType) -> bool:
        condition = self.condition(type)
        return condition is not None and condition.status

    @property
    def phase(self) -> Phase:
        if self.holds(ConditionType.FAILED):
            return Phase.FAILED
        if self.holds(ConditionType.SUCCEEDED):
            return Phase.SUCCEEDED
        if self.holds(ConditionType.SUSPENDED):
            return Phase.SUSPENDED
        if self.waiting:
            return Phase.QUEUED
        if self.holds(ConditionType.RESTARTING):
            return Phase.RESTARTING
        return Phase.RUNNING if self.holds(ConditionType.RUNNING) else Phase.CREATED
