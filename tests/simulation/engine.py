"""How is the real step driven in virtual time: woken, killed, refused and taken again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from msgspec import Struct

from bireme.engine.step import Conflict, step
from bireme.model.decisions import Decision
from bireme.model.replicas import Observation
from tests.simulation.audit import check_decision
from tests.simulation.clock import Clock
from tests.simulation.place import Killed, Place

RESYNC = 60.0
"""Seconds after which a job is looked at although nobody was woken, while wake-ups may be lost."""
START = 1_000_000.0
"""What the engine's clock shows when a simulation begins."""


class Taken(Struct, frozen=True):
    """One step, as it is told when something went wrong."""

    at: float
    told: tuple[str, ...]
    seen: Observation
    decision: Decision | None
    end: str


class Engine:
    """Takes steps for one job; it may die between any two moments of one."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock, self._rng = clock, rng
        self.place: Place
        self.offset = START
        self.steps = 0
        self.taken: deque[Taken] = deque(maxlen=40)
        self._told: list[str] = []
        self._due: float | None = None
        self._timer = 0
        self._began = START
        self._busy = self._dead = self._called = False

    def begin(self, place: Place) -> None:
        self.place = place
        place.jostle = self._jostle
        place.wall = lambda: self._began
        self.wake()
        self._resync()

    @property
    def now(self) -> float:
        return self._clock.now + self.offset

    def tell(self, what: str) -> None:
        self._told.append(f"{self._clock.now:.1f} {what}")

    def changed(self) -> None:
        """Something changed; the wake-up may come late, twice or not at all."""
        place = self.place
        if not place.calm and self._rng.random() < place.profile.lost_wake:
            return
        self.wake(0.05)
        if not place.calm and self._rng.random() < 0.05:
            self.wake(0.5)

    def wake(self, delay: float = 0.0) -> None:
        if self._busy:
            self._called = True
            return
        due = self._clock.now + delay
        if self._due is None or due < self._due:
            self._due = due
            self._clock.after(delay, lambda: self._on_wake(due))

    def die(self) -> None:
        """The engine is killed, and another one starts after a while."""
        place = self.place
        if self._busy:
            place.moments = 0
            return
        self._timer += 1
        if self._dead:
            return
        self._dead = True
        self.tell("the engine dies")
        place.forget()
        if place.profile.here:
            end: Callable[..., None] = self._rng.choice((place.evict, place.vanish))
            for body in place.living():
                end(body)
        self._clock.after(self._rng.random() * 10.0, self._revive)

    def _revive(self) -> None:
        self._dead = False
        self.wake()

    def _on_wake(self, due: float) -> None:
        if self._due == due:
            self._due = None
            self._step()

    def _on_timer(self, timer: int) -> None:
        if timer == self._timer:
            self._step()

    def _resync(self) -> None:
        if not self.place.calm:
            self._clock.after(RESYNC, self._resync)
            self.wake()

    def _step(self) -> None:
        if self._dead:
            return
        if self._busy:
            self._called = True
            return
        self.steps += 1
        place = self.place
        place.moments = None
        if not place.calm and self._rng.random() < place.profile.kill:
            place.moments = self._rng.randrange(12)
        decision, end = None, "violation"
        self._busy = True
        try:
            decision, end = self._take()
        finally:
            self._busy = False
            told, self._told = tuple(self._told), []
            self.taken.append(Taken(self.now, told, place.seen, decision, end))
        if end == "killed":
            self.die()
        elif end == "conflict":
            self.wake(0.1)
        elif decision is not None:
            self._set_timer(decision.wake_at)
        if self._called:
            self._called = False
            self.wake(0.05)

    def _take(self) -> tuple[Decision | None, str]:
        # Nothing in a step waits for anything real, so that one push carries it to its end.
        self._began = self.now
        running = step("job", self.place, self.place, self._began)
        try:
            running.send(None)
        except StopIteration as done:
            decision: Decision = done.value
            check_decision(self.place.loaded, decision, self.place.seen)
            return decision, "done"
        except Conflict:
            return None, "conflict"
        except Killed:
            return None, "killed"
        raise RuntimeError("a step waited for something real")

    def _set_timer(self, at: float | None) -> None:
        self._timer += 1
        timer = self._timer
        if at is not None:
            self._clock.after(max(0.0, at - self.now), lambda: self._on_timer(timer))

    def _jostle(self) -> None:
        """The world does not stand still while a step is taken."""
        due = self._clock.next()
        if due is not None and due - self._clock.now < 5.0:
            self._clock.advance()
