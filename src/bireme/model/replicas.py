"""Holds what a backend sees of a job now."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

_FIRST_FREE_PORT = 1024
_LAST_PORT = 65535
_MOST_TEXT = 500


class ReplicaPhase(StrEnum):
    """The phase of a replica, in the words of Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"
    """It cannot be known now, for example behind a partition; never a guess."""

    @property
    def is_final(self) -> bool:
        return self in (ReplicaPhase.SUCCEEDED, ReplicaPhase.FAILED)


class Loss(StrEnum):
    """The cause of a failure: the replica's own exit, or the loss of the place that it ran in."""

    CRASH = "crash"
    EVICTION = "eviction"


_OURS = "bireme.runtime."
"""How the names of our own errors begin: they are sentences, and their names tell a user nothing."""


class Told(Struct, frozen=True, omit_defaults=True):
    """The report of a rank about its own end: the error that ended it, and how far it had come."""

    type: str = ""
    """The exception's, as its interpreter names it; empty where the rank told of no error."""
    message: str = ""
    place: str = ""
    """File and line where it was raised; empty where nothing of the program had run."""
    time: float = 0.0
    step: int = -1
    """The last step that was reported in the attempt; -1 for none that is known."""
    saved: int = -1
    """The last step of which a checkpoint was saved in the attempt; -1 for none that is known."""
    lost: str = ""
    """What its script could not save although it ended well, as a sentence without its subject."""
    status: int | None = None
    """With which a SystemExit ended it, if that was a number."""

    @property
    def line(self) -> str:
        """The error in a line, as Python prints it last; empty for a bare exit status."""
        first = next(iter(self.message.splitlines()), "")
        if self.type == "SystemExit":
            return "" if first.isdecimal() else first
        if first and self.type.startswith(_OURS):
            return first
        return f"{self.type}: {first}" if first else self.type


class Replica(Struct, frozen=True):
    """One replica that exists, as its backend sees it."""

    name: str
    role: str
    index: int
    attempt: int
    uid: str
    phase: ReplicaPhase
    ready: bool = False
    stopping: bool = False
    """Its removal was asked for and is not complete."""
    grace_ends: float | None = None
    """When the grace of a replica that is being removed is over; None where the backend does not tell."""
    unreachable: bool = False
    """Its node does not answer, or does not exist."""
    leftover: bool = False
    """It has ended, its removal was asked for, and only its node has still to confirm that."""
    abandoned: bool = False
    """No node will report its end. No backend tells: `core.replicas.removal` concludes it from the above."""
    restarts: int = 0
    """How often its programs were started again in place."""
    loss: Loss = Loss.CRASH
    """Meaningful only when it failed."""
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    node: str = ""
    address: str = ""
    """Where peers reach it, once that is known; only a cluster tells."""
    told: Told = Told()
    """Meaningful only when it ended."""
    attempt_told: bool = True
    """Whether its backend knows the attempt; where it does not, `attempt` is the first one's number."""

    @property
    def is_alive(self) -> bool:
        return not self.phase.is_final


def printable(text: str) -> str:
    """The text of a script as one line, without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text[:_MOST_TEXT])


class Address(Struct, frozen=True):
    """The address of a replica: a host, and the port behind each of its port names."""

    host: str
    ports: dict[str, int] = {}


class Addresses(Struct, frozen=True):
    """The addresses of the replicas of an attempt; empty where cluster DNS names hold."""

    book: dict[str, Address] = {}
    domain: str = ""
    """The cluster's domain where qualified names carry it."""
    shift: int = 0
    """Added to every declared port, so that no process left of an earlier attempt finds this one's."""

    def host(self, replica: str, dns: str = "") -> str:
        """The replica's host: from the book, else its DNS name (by default the short one)."""
        entry = self.book.get(replica)
        return entry.host if entry else dns or replica

    def port(self, replica: str, name: str, declared: int) -> int:
        entry = self.book.get(replica)
        if entry:
            return entry.ports.get(name, declared)
        if not self.shift:
            return declared
        free = _LAST_PORT - _FIRST_FREE_PORT + 1
        return _FIRST_FREE_PORT + (declared - _FIRST_FREE_PORT + self.shift) % free

    def qualified(self, service: str, namespace: str) -> str:
        return f"{service}.{namespace}.svc" + (f".{self.domain}" if self.domain else "")


class Granted(Struct, frozen=True, tag="granted"):
    """The attempt has its resources and addresses."""

    attempt: int
    replicas: frozenset[str]
    addresses: Addresses = Addresses()
    together: bool = False
    """No replica is given a place, and with it an address, before all that may start are there."""


class Waiting(Struct, frozen=True, tag="waiting"):
    """The attempt waits for resources; the reason is a sentence for people."""

    attempt: int
    reason: str


Admission = Granted | Waiting


class Fault(Struct, frozen=True):
    """An action that did not work: what was refused, why, and whether trying again can help."""

    replica: str
    text: str
    hint: str = ""
    final: bool = False
    alone: bool = False
    """It concerns this replica only, such as a name that is taken: the others may start."""
    attempt: int | None = None
    """Of which attempt it was; None where it is always of the present one."""


class Part(StrEnum):
    """An object that a job has beside its replicas; only a cluster has such objects."""

    LAUNCHER_ROLE = "launcher role"
    POD_GROUP = "pod group"
    AUTOSCALER = "autoscaler"


class Observation(Struct, frozen=True):
    """Everything that the backend knows about a job at one moment."""

    replicas: tuple[Replica, ...] = ()
    admission: Admission | None = None
    faults: tuple[Fault, ...] = ()
    complete: bool = True
    """False when the backend could not look: then absence of a replica means nothing."""
    drift: tuple[Part, ...] = ()
    """Parts that are missing, or do not say what the job says now; a role only if it grants too much."""
    unplaced_since: float | None = None
    """Since when a gang scheduler has found no place for a replica and was not reminded of it.

    None where every replica has a place, or where the scheduler looks again by itself.
    """
