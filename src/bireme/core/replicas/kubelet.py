"""Decides as a kubelet does: which container of a replica starts next, and what the replica's phase is."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bireme.core.restarts import backoff
from bireme.model.pods import Container, PodSpec
from bireme.model.replicas import ReplicaPhase


class InPlace(StrEnum):
    """The policy by which a container that ended is restarted in its replica."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"

    def again(self, exit_code: int) -> bool:
        return self is InPlace.ALWAYS or (self is InPlace.ON_FAILURE and exit_code != 0)


class ContainerHistory(Struct, frozen=True):
    """The history of one container: how often it ended, and how it is now."""

    ended: int = 0
    running: bool = False
    exit_code: int | None = None
    """Of its last end."""
    started_at: float = 0.0
    ended_at: float = 0.0
    failures: int = 0
    """Ends in a row that ask for a back-off; a long healthy run resets them."""


class Lifecycle(Struct, frozen=True):
    """The next step of a replica, and what is reported of it."""

    phase: ReplicaPhase
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    """Sidecars that outlive the work."""
    wake_at: float | None = None
    ready: bool = False
    restarts: int = 0
    exit_code: int | None = None


def decide(
    pod: PodSpec, policy: InPlace, main: str, states: dict[str, ContainerHistory], now: float
) -> Lifecycle:
    """Decide as a kubelet does: init containers one by one, then all others together."""
    steps = [_step(container, policy, states, now) for container in pod.containers]
    # An init container that failed and is not restarted ends the replica before its programs begin.
    inits = [_state(container, states) for container in pod.init_containers if not container.sidecar]
    codes = [state.exit_code for state in inits if state.exit_code] if policy is InPlace.NEVER else []
    failed = codes[0] if codes else None
    if failed is not None or all(step.over for step in steps):
        return _over(pod, policy, main, states, failed)
    restarts = _restarts(pod, policy, states)
    blocked = _initialise(pod, states, now)
    if blocked is not None:
        start = (blocked.name,) if blocked.start else ()
        return Lifecycle(ReplicaPhase.PENDING, start=start, wake_at=blocked.wake_at, restarts=restarts)
    sidecars = [container for container in pod.init_containers if container.sidecar]
    steps += [_step(container, InPlace.ALWAYS, states, now) for container in sidecars]
    waits = [step.wake_at for step in steps if step.wake_at is not None]
    return Lifecycle(
        ReplicaPhase.RUNNING,
        start=tuple(step.name for step in steps if step.start),
        wake_at=min(waits, default=None),
        ready=all(_state(container, states).running for container in pod.containers),
        restarts=restarts,
        exit_code=states.get(main, ContainerHistory()).exit_code,
    )


def ended(state: ContainerHistory, exit_code: int, now: float) -> ContainerHistory:
    """The state of a container after one more end."""
    healthy = now - state.started_at >= backoff.RESET
    return ContainerHistory(
        ended=state.ended + 1,
        exit_code=exit_code,
        started_at=state.started_at,
        ended_at=now,
        failures=1 if healthy else state.failures + 1,
    )


def started(state: ContainerHistory, now: float) -> ContainerHistory:
    """The state of a container that was started."""
    return ContainerHistory(
        ended=state.ended,
        running=True,
        exit_code=state.exit_code,
        started_at=now,
        ended_at=state.ended_at,
        failures=state.failures,
    )


class _Step(Struct, frozen=True):
    name: str
    start: bool = False
    over: bool = False
    wake_at: float | None = None


def _over(
    pod: PodSpec, policy: InPlace, main: str, states: dict[str, ContainerHistory], failed_init: int | None
) -> Lifecycle:
    """The end of a replica: only its sidecars may still run, and their end is no restart."""
    codes = [failed_init] if failed_init else [states[program.name].exit_code for program in pod.containers]
    first = next((code for code in codes if code), 0)
    sidecars = [container for container in pod.init_containers if container.sidecar]
    lasting = [sidecar for sidecar in sidecars if _state(sidecar, states).running]
    stopped = sum(1 for sidecar in sidecars if _state(sidecar, states).ended and sidecar not in lasting)
    return Lifecycle(
        ReplicaPhase.FAILED if first else ReplicaPhase.SUCCEEDED,
        stop=tuple(sidecar.name for sidecar in lasting),
        restarts=_restarts(pod, policy, states) - stopped,
        exit_code=first if failed_init else states[main].exit_code or first,
    )


def _initialise(pod: PodSpec, states: dict[str, ContainerHistory], now: float) -> _Step | None:
    """The step of the first init container that is not through yet; None when all are."""
    work_began = any(program.name in states for program in pod.containers)
    for container in pod.init_containers:
        state = _state(container, states)
        if container.sidecar:
            # A sidecar that ends while the programs run is restarted beside them, and blocks nothing.
            if not state.running and not (state.ended and work_began):
                return _step(container, InPlace.ALWAYS, states, now)
        elif state.exit_code != 0 or state.running:
            # Where one that failed is not restarted, the replica has failed already.
            return _step(container, InPlace.ON_FAILURE, states, now)
    return None


def _step(container: Container, policy: InPlace, states: dict[str, ContainerHistory], now: float) -> _Step:
    state = _state(container, states)
    if state.running:
        return _Step(container.name)
    if not state.ended:
        return _Step(container.name, start=True)
    if not policy.again(state.exit_code or 0):
        return _Step(container.name, over=True)
    due = state.ended_at + backoff.in_place(state.failures)
    return _Step(container.name, start=True) if due <= now else _Step(container.name, wake_at=due)


def _restarts(pod: PodSpec, policy: InPlace, states: dict[str, ContainerHistory]) -> int:
    """Ends that were followed by a restart, or will be as soon as the back-off is over."""
    total = 0
    for container in (*pod.init_containers, *pod.containers):
        state = states.get(container.name)
        if state is None or not state.ended:
            continue
        rule = InPlace.ALWAYS if container.sidecar else policy
        if container in pod.init_containers and not container.sidecar and policy is InPlace.ALWAYS:
            rule = InPlace.ON_FAILURE
        total += state.ended if state.running or rule.again(state.exit_code or 0) else state.ended - 1
    return total


def _state(container: Container, states: dict[str, ContainerHistory]) -> ContainerHistory:
    return states.get(container.name, ContainerHistory())
