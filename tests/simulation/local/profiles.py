"""What goes wrong on a simulated machine, and how often."""

from __future__ import annotations

from enum import StrEnum
from random import Random

from msgspec import Struct


class Mishap(StrEnum):
    """Something that happens to a run from outside."""

    KILL_RUNNER = "kill the runner"
    KILL_SOON = "kill the runner within a few moments"
    KILL_RANK = "kill a rank"
    KILL_ZYGOTE = "kill the zygotes"
    DISK = "fill the disk or empty it"
    SUSPEND = "suspend or resume"
    RESUME = "resume after a failure"
    SCALE = "scale"
    JUMP = "set the clock"
    RIVAL = "another run claims the machine, or ends"
    WAKE = "wake the runner for nothing"


class Profile(Struct, frozen=True):
    """How a machine treats a run while there is chaos; afterwards everything goes well."""

    chaos: float
    """Seconds of it."""
    mishaps: tuple[Mishap, ...]
    pause: float
    """Mean seconds between two mishaps."""
    work: float
    """Mean seconds that a program runs."""
    crash: float
    """Probabilities from here on."""
    hang: float
    not_started: float
    strays: float
    """That a program leaves a process behind when it ends."""
    warm: float
    """That a program is forked by a zygote, which outlives the runner for a moment."""
    lost_wake: float
    groups: bool
    """Whether the machine has control groups."""

    @property
    def counts_exactly(self) -> bool:
        """Whether every loss that is seen must be counted: the user does not change what is wanted."""
        return Mishap.SCALE not in self.mishaps


def draw(rng: Random) -> Profile:
    """A machine at random; most of its dangers are absent, so that each is met alone and in company."""

    def some(chance: float, most: float) -> float:
        return rng.random() * most if rng.random() < chance else 0.0

    few = rng.choice((1, 2, 2, 3, 4, 11))
    return Profile(
        chaos=rng.choice((60.0, 300.0)),
        mishaps=tuple(mishap for mishap in Mishap if rng.random() * 11 < few),
        pause=rng.choice((1.0, 5.0, 20.0)),
        work=rng.choice((2.0, 10.0, 60.0)),
        crash=some(0.7, 0.8),
        hang=some(0.3, 0.4),
        not_started=some(0.1, 0.1),
        strays=some(0.5, 0.8),
        warm=some(0.5, 1.0),
        lost_wake=some(0.3, 0.7),
        groups=rng.random() < 0.5,
    )
