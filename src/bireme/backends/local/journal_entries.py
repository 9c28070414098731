"""What does a runner write down about its replicas, so that the next one knows what was."""

from __future__ import annotations

from msgspec import Struct

from bireme.model.replicas import Loss, Replica, ReplicaPhase


class Began(Struct, frozen=True, tag="began"):
    """A replica came into being."""

    uid: str
    replica: str
    role: str
    index: int
    attempt: int
    at: float


class Ran(Struct, frozen=True, tag="ran"):
    """A container of it was started as this process."""

    uid: str
    container: str
    pid: int
    start_time: int
    warm: bool
    at: float


class Ended(Struct, frozen=True, tag="ended"):
    """A container of it ended."""

    uid: str
    container: str
    exit_code: int
    at: float
    reason: str = ""
    message: str = ""
    restarts: int = 0
    """Of the whole replica so far: which ends count as restarts is known only to who has its pod."""


class Over(Struct, frozen=True, tag="over"):
    """The replica reached its final phase."""

    uid: str
    phase: ReplicaPhase
    exit_code: int | None
    restarts: int
    at: float
    loss: Loss = Loss.CRASH
    reason: str = ""
    message: str = ""


class Gone(Struct, frozen=True, tag="gone"):
    """The replica was removed."""

    uid: str
    at: float


Entry = Began | Ran | Ended | Over | Gone


class Known(Struct, frozen=True):
    """What a journal tells of a replica that was not removed."""

    began: Began
    over: Over | None = None
    restarts: int = 0

    def replica(self) -> Replica:
        """How it is seen by a runner that did not start it: what has no recorded end was evicted."""
        over = self.over or Over(
            self.began.uid,
            ReplicaPhase.FAILED,
            None,
            self.restarts,
            self.began.at,
            Loss.EVICTION,
            "Evicted",
            "its runner died, and it died with it",
        )
        return Replica(
            name=self.began.replica,
            role=self.began.role,
            index=self.began.index,
            attempt=self.began.attempt,
            uid=self.began.uid,
            phase=over.phase,
            restarts=over.restarts,
            loss=over.loss,
            exit_code=over.exit_code,
            reason=over.reason,
            message=over.message,
        )


def replay(entries: list[Entry]) -> dict[str, Known]:
    """The replicas that a journal leaves behind, by uid, oldest first."""
    known: dict[str, Known] = {}
    for entry in entries:
        match entry:
            case Began(uid=uid):
                known[uid] = Known(entry)
            case Over(uid=uid) if uid in known:
                known[uid] = Known(known[uid].began, entry)
            case Ended(uid=uid, restarts=restarts) if uid in known:
                known[uid] = Known(known[uid].began, known[uid].over, restarts)
            case Gone(uid=uid):
                known.pop(uid, None)
            case _:
                pass
    return known
