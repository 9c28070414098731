"""How do tests say what a backend sees, and how do they take one look after the other."""

from __future__ import annotations

from msgspec.structs import replace

from bireme.core.reconcile import reconcile
from bireme.model.decisions import Action, Decision, Start, Stop
from bireme.model.job import Job, Restart, RestartScope, RunPolicy, replica_ids
from bireme.model.pods import Resources
from bireme.model.replicas import (
    Admission,
    Fault,
    Granted,
    Loss,
    Observation,
    Replica,
    ReplicaPhase,
)
from bireme.model.status import Condition, Phase, Status
from tests.unit import build

AUTOMATIC = Granted(attempt=-1, replicas=frozenset())
"""Stands for an admission that has what the present attempt asks for."""


def workers(
    count: int = 2,
    restart: Restart = Restart.ON_FAILURE,
    *,
    unit: RestartScope = RestartScope.REPLICA,
    policy: RunPolicy | None = None,
) -> Job:
    """A PyTorchJob of workers alone: it has succeeded when all of them have."""
    return build.job("PyTorchJob", build.role("Worker", count, restart=restart), unit=unit, policy=policy)


def seen(
    name: str,
    phase: ReplicaPhase,
    *,
    attempt: int = 0,
    uid: str = "",
    stopping: bool = False,
    abandoned: bool = False,
    restarts: int = 0,
    ready: bool | None = None,
) -> Replica:
    """A replica as its backend sees it: `worker-0` is one of the job that all tests share."""
    role, _, index = name.rpartition("-") if name[-1].isdigit() else (name, "", "0")
    return Replica(
        name=f"mnist-{name}",
        role=role or "pod",
        index=int(index),
        attempt=attempt,
        uid=uid or f"{name}/{attempt}",
        phase=phase,
        ready=phase is ReplicaPhase.RUNNING if ready is None else ready,
        stopping=stopping,
        abandoned=abandoned,
        restarts=restarts,
    )


def pending(name: str, *, attempt: int = 0, uid: str = "") -> Replica:
    return seen(name, ReplicaPhase.PENDING, attempt=attempt, uid=uid)


def running(name: str, *, attempt: int = 0, uid: str = "", restarts: int = 0) -> Replica:
    return seen(name, ReplicaPhase.RUNNING, attempt=attempt, uid=uid, restarts=restarts)


def stopping(name: str, *, attempt: int = 0, uid: str = "", abandoned: bool = False) -> Replica:
    phase = ReplicaPhase.UNKNOWN if abandoned else ReplicaPhase.RUNNING
    return seen(name, phase, attempt=attempt, uid=uid, stopping=True, abandoned=abandoned)


def unknown(name: str, *, attempt: int = 0, uid: str = "") -> Replica:
    return seen(name, ReplicaPhase.UNKNOWN, attempt=attempt, uid=uid)


def succeeded(name: str, *, attempt: int = 0, uid: str = "") -> Replica:
    return replace(seen(name, ReplicaPhase.SUCCEEDED, attempt=attempt, uid=uid), exit_code=0)


def crashed(
    name: str, code: int | None = 1, *, attempt: int = 0, uid: str = "", restarts: int = 0
) -> Replica:
    failed = seen(name, ReplicaPhase.FAILED, attempt=attempt, uid=uid, restarts=restarts)
    return replace(failed, exit_code=code)


def evicted(name: str, *, attempt: int = 0, uid: str = "", restarts: int = 0) -> Replica:
    failed = seen(name, ReplicaPhase.FAILED, attempt=attempt, uid=uid, restarts=restarts)
    return replace(failed, loss=Loss.EVICTION)


class World:
    """A job and its memory; each look at it is one decision, and its status is kept."""

    def __init__(self, job: Job, status: Status | None = None) -> None:
        self.job = job
        self.status = status or Status()

    def look(
        self,
        *replicas: Replica,
        at: float = 0.0,
        faults: tuple[Fault, ...] = (),
        admission: Admission | None = AUTOMATIC,
        complete: bool = True,
    ) -> Decision:
        if admission is AUTOMATIC:
            admission = granted(self.job, self.status.attempt)
        observation = Observation(replicas, admission, faults, complete)
        decision = reconcile(self.job, self.status, observation, at)
        self.status = decision.status
        return decision

    def phase(self) -> Phase:
        return self.status.phase

    def suspend(self, suspend: bool = True) -> None:
        self.job = replace(self.job, policy=replace(self.job.policy, suspend=suspend))

    def scale(self, role: str, replicas: int) -> None:
        roles = tuple(replace(one, replicas=replicas) if one.name == role else one for one in self.job.roles)
        self.job = replace(self.job, roles=roles)


def at_work(job: Job) -> World:
    """A job whose two workers run."""
    world = World(job)
    world.look(at=0.0)
    world.look(running("worker-0"), running("worker-1"), at=1.0)
    return world


ONE_CPU = Resources(cpu=1000)


def busy(count: int = 2, unit: RestartScope = RestartScope.REPLICA) -> World:
    """A job whose workers have a port and claim a cpu each."""
    one = build.container("train", ports={"pytorchjob-port": 23456}, requests=ONE_CPU)
    role = build.role("Worker", count, one, restart=Restart.ON_FAILURE)
    return World(build.job("PyTorchJob", role, unit=unit))


def granted(job: Job, attempt: int = 0) -> Granted:
    return Granted(attempt, frozenset(member.name for member in replica_ids(job)))


def starts(decision: Decision) -> list[str]:
    return [one.replica.removeprefix("mnist-") for one in decision.actions if isinstance(one, Start)]


def stops(decision: Decision) -> list[str]:
    return [one.replica.removeprefix("mnist-") for one in decision.actions if isinstance(one, Stop)]


def others(decision: Decision) -> list[Action]:
    return [one for one in decision.actions if not isinstance(one, Start | Stop)]


def told(status: Status) -> list[str]:
    """The conditions in their order: `Running` where it holds, `-Running` where it does not any more."""
    return [_told(one) for one in status.conditions]


def _told(condition: Condition) -> str:
    return f"{'' if condition.status else '-'}{condition.type}"
