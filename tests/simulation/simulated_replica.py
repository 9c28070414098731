"""A simulated replica: its programs run, end, are started again in place, and are stopped."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from bireme.core.replicas import kubelet
from bireme.core.replicas.kubelet import ContainerHistory, InPlace
from bireme.model.decisions import Start
from bireme.model.replicas import Loss, Replica, ReplicaPhase, Told
from tests.simulation.clock import Clock
from tests.simulation.profiles import Profile

CODES = (1, 2, 127, 134, 137, 139, 143, 255)
"""Exit codes of programs that crash."""
ERRORS = (
    Told("SyntaxError", "invalid syntax"),
    Told("ValueError", "no", "train.py:3"),
    Told("ValueError", "no", "train.py:3"),
    Told("KeyError", "'x'", "train.py:9"),
    Told("RuntimeError", "Connection closed by peer", "train.py:9"),
)
"""What programs tell that crash."""
ECHO = ERRORS[1]
"""What they tell when a peer is lost: it looks like an error of their own."""
HANGING = 1e9
"""Seconds until a program ends that never does."""


class Body:
    """One replica that was started, as it truly is."""

    def __init__(self, uid: str, start: Start, node: int) -> None:
        self.uid, self.node = uid, node
        self.name, self.role, self.index, self.attempt = start.replica, start.role, start.index, start.attempt
        self.start = start
        self.states: dict[str, ContainerHistory] = {}
        self.phase = ReplicaPhase.PENDING
        self.ready = False
        self.restarts = 0
        self.exit_code: int | None = None
        self.loss = Loss.CRASH
        self.stopping = False
        self.abandoned = False
        self.crashes = 0
        """Programs that ended and were or should have been started again."""
        self.endless = False
        self.told = Told()

    @property
    def alive(self) -> bool:
        return not self.phase.is_final

    @property
    def policy(self) -> InPlace:
        if self.start.restarts_always:
            return InPlace.ALWAYS
        return InPlace.ON_FAILURE if self.start.restarts_in_place else InPlace.NEVER

    def shown(self, *, reachable: bool) -> Replica:
        """What is known of it where its node answers, or does not."""
        phase = self.phase if reachable else ReplicaPhase.UNKNOWN
        return Replica(
            name=self.name,
            role=self.role,
            index=self.index,
            attempt=self.attempt,
            uid=self.uid,
            phase=phase,
            address="10.0.0.1" if self.states else "",
            ready=self.ready and reachable,
            stopping=self.stopping,
            unreachable=not reachable,
            grace_ends=0.0 if self.abandoned else None,
            restarts=self.restarts,
            loss=self.loss,
            exit_code=self.exit_code,
            told=self.told if phase is ReplicaPhase.FAILED else Told(),
            node=str(self.node),
        )


class Kubelet:
    """Runs bodies; while there is chaos their programs crash and hang, afterwards they succeed."""

    def __init__(self, clock: Clock, rng: Random, profile: Profile, changed: Callable[[Body], None]) -> None:
        self._clock, self._rng, self._profile, self._changed = clock, rng, profile, changed
        self.calm = False

    def begin(self, body: Body) -> None:
        """The replica is placed and its first program starts."""
        if body.alive and not body.states and not body.stopping:
            self._advance(body)

    def stop(self, body: Body, grace: float) -> None:
        """Ask the programs to end, and kill them after the grace."""
        body.stopping = True
        reaction = self._rng.random()
        if reaction < 0.5:
            self._clock.after(min(grace, self._rng.random()), lambda: self.finish(body, 143))
        elif reaction < 0.7:
            self._clock.after(min(grace, 2.0 * self._rng.random()), lambda: self.finish(body, 0))
        self._clock.after(grace, lambda: self.finish(body, 137))

    def finish(self, body: Body, code: int, loss: Loss = Loss.CRASH) -> None:
        """Every program of the replica ends now, and none is started again."""
        if not body.alive:
            return
        body.phase = ReplicaPhase.FAILED if code else ReplicaPhase.SUCCEEDED
        body.ready = False
        body.exit_code, body.loss = code, loss
        self._changed(body)

    def echo(self, body: Body) -> None:
        """A peer was lost, and the program falls over that in its own words."""
        if body.states:
            body.told = replace(ECHO, time=self._clock.now)
            body.crashes = max(body.crashes, body.restarts + 1)
            self.finish(body, 1)

    def hurry(self, body: Body) -> None:
        """Chaos is over: whoever hangs, and whoever works, comes to its end."""
        for name, state in body.states.items():
            if state.running and not self._lasts(body, name):
                self._end_after(body, name, 1.0 + 9.0 * self._rng.random(), 0)

    def _advance(self, body: Body) -> None:
        if not body.alive or body.stopping:
            return
        now = self._clock.now
        life = kubelet.decide(body.start.pod, body.policy, body.start.main, body.states, now)
        for name in life.start:
            body.states[name] = kubelet.started(body.states.get(name, ContainerHistory()), now)
            self._run(body, name)
        for name in life.stop:
            body.states[name] = kubelet.ended(body.states[name], 143, now)
        if life.wake_at is not None:
            self._clock.after(life.wake_at - now, lambda: self._advance(body))
        body.phase, body.restarts, body.exit_code = life.phase, life.restarts, life.exit_code
        body.ready = not life.phase.is_final and all(
            name in body.states and body.states[name].running for name in self._names(body)
        )
        body.crashes = max(body.crashes, life.restarts + (life.phase is ReplicaPhase.FAILED))
        if life.phase is ReplicaPhase.FAILED and self._profile.tells:
            body.told = self._last_words()
        self._changed(body)
        if life.phase is ReplicaPhase.PENDING and life.start:
            self._clock.after(0.1, lambda: self._advance(body))  # A sidecar runs: the next one may start.

    def _last_words(self) -> Told:
        """What a program tells that crashed: perhaps its error, and perhaps how far it has come."""
        rng, now = self._rng, self._clock.now
        error = rng.choice(ERRORS) if rng.random() < self._profile.tells else Told()
        step = int(now) if rng.random() < 0.3 else -1
        saved = int(now) // 50 if rng.random() < 0.3 else -1
        return replace(error, time=now, step=step, saved=saved)

    def _run(self, body: Body, name: str) -> None:
        """A program runs for a while, and what comes of it is drawn now."""
        rng, profile = self._rng, self._profile
        duration = rng.expovariate(1 / profile.work)
        code = 0
        if not self.calm:
            fate = rng.random()
            if fate < profile.crash:
                code = rng.choice(CODES)
            elif fate < profile.crash + profile.hang:
                duration = HANGING
        else:
            duration = min(duration, 20.0)
        if code == 0 and self._lasts(body, name):
            duration = HANGING
        self._end_after(body, name, duration, code)

    def _end_after(self, body: Body, name: str, duration: float, code: int) -> None:
        run = body.states[name].ended
        self._clock.after(duration, lambda: self._ended(body, name, run, code))

    def _ended(self, body: Body, name: str, run: int, code: int) -> None:
        state = body.states[name]
        if not body.alive or body.stopping or not state.running or state.ended != run:
            return
        body.states[name] = kubelet.ended(state, code, self._clock.now)
        if body.policy is InPlace.NEVER:
            # A program whose companion is gone for good has nobody left to serve.
            for other in [one for one in self._names(body) if one != name and one in body.states]:
                self._end_after(body, other, 5.0, 0)
        self._advance(body)

    def _lasts(self, body: Body, name: str) -> bool:
        """Whether the program runs until it is stopped."""
        return name == "proxy" or (body.endless and name != "prepare")

    def _names(self, body: Body) -> list[str]:
        return [one.name for one in body.start.pod.containers]
