"""How does a seed become a whole life of a job, checked after every step."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from hashlib import sha256
from random import Random

from msgspec import Struct

from bireme.model.job import Job
from bireme.model.status import Status
from tests.simulation import jobs, profiles, rules
from tests.simulation.chaos import Chaos
from tests.simulation.clock import Clock
from tests.simulation.engine import Engine, Taken
from tests.simulation.place import Place
from tests.simulation.profiles import Profile

PATIENCE = 4000.0
"""Seconds after the chaos in which every job must have ended and been cleaned up."""
MOST_STEPS = 20_000


class Trace(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    steps: int
    job: Job
    profile: Profile
    status: Status
    last: tuple[Taken, ...]
    violation: str = ""
    details: str = ""

    @property
    def digest(self) -> str:
        """The same for the same seed, always."""
        told = (self.steps, self.status, [(one.at, one.told, one.decision, one.end) for one in self.last])
        return sha256(repr(told).encode()).hexdigest()

    def report(self) -> Iterator[str]:
        """The story for people, with the command that tells it again."""
        yield f"seed {self.seed}: {self.violation} (step {self.steps})"
        yield f"replay: python -m tests.simulation --seed {self.seed}"
        yield f"{self.job.kind} {self.job.unit} {self.job.policy}"
        yield f"{[(one.name, one.replicas, str(one.restart)) for one in self.job.roles]} {self.job.options}"
        yield f"{self.profile}"
        for one in self.last:
            yield from _told(one)
        yield f"{self.status}"
        yield self.details


def run(seed: int) -> Trace:
    """Live through one seed."""
    rng = Random(seed)
    profile, job, clock = profiles.draw(rng), jobs.draw(rng), Clock()
    engine = Engine(clock, rng)
    place = Place(clock, rng, profile, job, engine.changed)
    engine.begin(place)
    chaos = Chaos(place, engine)
    violation = details = ""
    try:
        _live(clock, engine, chaos)
        rules.check_end(place.ledger, place.job, place.status, place.admission)
    except rules.Violation as broken:
        violation = str(broken)
    except Exception as bug:  # Whatever the core raises is a finding too.
        violation, details = repr(bug), traceback.format_exc()
    return Trace(seed, engine.steps, job, profile, place.status, tuple(engine.taken), violation, details)


def _live(clock: Clock, engine: Engine, chaos: Chaos) -> None:
    end: float | None = None
    while True:
        due = clock.next()
        if chaos.over and end is None:
            end = clock.now + PATIENCE
        if not chaos.over and engine.place.status.completed is not None:
            chaos.relent()
        if due is None or (end is not None and due > end):
            return
        clock.advance()
        if engine.steps > MOST_STEPS:
            raise rules.Violation(f"more than {MOST_STEPS} steps: the engine is busy for nothing")


def _told(step: Taken) -> Iterator[str]:
    for what in step.told:
        yield f"        {what}"
    yield f"{step.at:.1f} {step.end}"
    for one in step.seen.replicas:
        flags = [name for name in ("ready", "stopping", "unreachable", "leftover") if getattr(one, name)]
        yield f"    {one.uid} {one.phase} {one.loss if one.phase == 'Failed' else ''} {one.restarts} {flags}"
    yield f"    {step.seen.admission} {step.seen.faults} {'' if step.seen.complete else 'blind'}"
    if step.decision is not None:
        status = step.decision.status
        yield (
            f"    -> {status.phase} attempt {status.attempt} crashes {status.crashes} "
            f"evictions {status.evictions} done {status.done} wake {step.decision.wake_at}"
        )
        for action in step.decision.actions:
            text = str(action)
            yield f"    -> {text if len(text) < 120 else text[:120]}"
