"""What goes wrong in a simulated world, and how often."""

from __future__ import annotations

from enum import StrEnum
from random import Random

from msgspec import Struct


class Misfortune(StrEnum):
    """Something that happens to a job from outside."""

    EVICT = "evict"
    VANISH = "vanish"
    DELETE = "delete"
    PARTITION = "partition"
    POWER_CUT = "power cut"
    WAKE = "wake"
    SUSPEND = "suspend"
    SCALE = "scale"
    JUMP = "jump"
    RESUME = "resume"


class Profile(Struct, frozen=True):
    """How a world treats a job while there is chaos; afterwards everything goes well."""

    chaos: float
    """Seconds of it."""
    misfortunes: tuple[Misfortune, ...]
    pause: float
    """Mean seconds between two misfortunes."""
    work: float
    """Mean seconds that a program runs."""
    crash: float
    """Probabilities from here on."""
    hang: float
    start_fault: float
    final_fault: float
    kill: float
    conflict: float
    blind: float
    twice: float
    lost_wake: float
    jostle: float
    lag: float
    """Longest seconds until a change is seen."""
    queue: float
    """Longest seconds that an admission takes."""
    here: bool
    """As on one machine: addresses from a book, and ranks that die with their runner."""
    faults_stay: bool
    """A fault is shown until the next try, not once."""
    finalizers: bool
    """What was removed is seen for a while after its end."""
    nodes: int
    quota: int
    """Replicas that may live at a time, where that is limited; 0 means any number."""
    tells: float = 0.0
    """Probability that a program which crashes tells its error."""

    @property
    def counts_exactly(self) -> bool:
        """Whether every loss that is seen must be counted: the user does not change who is wanted."""
        return Misfortune.SCALE not in self.misfortunes


def draw(rng: Random) -> Profile:
    """A world at random; most of its dangers are absent, so that each is met alone and in company."""

    def some(chance: float, most: float) -> float:
        return rng.random() * most if rng.random() < chance else 0.0

    few = rng.choice((0, 1, 1, 2, 3, 9))
    return Profile(
        chaos=rng.choice((60.0, 300.0, 1200.0)),
        misfortunes=tuple(one for one in Misfortune if rng.random() * 9 < few),
        pause=rng.choice((3.0, 10.0, 30.0)),
        work=rng.choice((5.0, 20.0, 60.0, 200.0)),
        crash=some(0.7, 0.9),
        hang=some(0.3, 0.4),
        start_fault=some(0.25, 0.5),
        final_fault=some(0.1, 0.1),
        kill=some(0.4, 0.3),
        conflict=some(0.3, 0.3),
        blind=some(0.2, 0.3),
        twice=some(0.4, 0.5),
        lost_wake=some(0.3, 0.5),
        jostle=some(0.4, 0.3),
        lag=some(0.4, 8.0),
        queue=some(0.4, 40.0),
        here=rng.random() < 0.25,
        faults_stay=rng.random() < 0.5,
        finalizers=rng.random() < 0.5,
        nodes=rng.choice((1, 2, 3)),
        quota=rng.choice((0, 0, 0, 0, 1, 2, 3)),
        tells=some(0.6, 1.0),
    )
