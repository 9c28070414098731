"""What is said about checkpoints: whose they are, which are kept, what was found and what was restored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict


@dataclass(frozen=True)
class Owner:
    """Who saves: one rank of one attempt of a run."""

    run: str
    rank: int = 0
    world_size: int = 1
    attempt: int = 0


@dataclass(frozen=True)
class Keep:
    """Which checkpoints stay: the last ones, and the best ones by a metric (`mode` is min or max)."""

    last: int = 3
    best: int = 0
    metric: str = ""
    mode: str = "min"


@dataclass(frozen=True)
class Found:
    """A checkpoint that is there, whether it can be restored, and if not, why."""

    name: str
    step: int
    when: float = 0.0
    size: int = 0
    metrics: Dict[str, float] = field(default_factory=dict)
    world_size: int = 0
    run: str = ""
    is_good: bool = True
    why_not: str = ""


@dataclass(frozen=True)
class Restored:
    """What came back. `values` holds each part that was asked for; `own` is empty if this rank saved none."""

    step: int
    values: Dict[str, Any]
    own: Dict[str, Any]
    world_size: int
    name: str
    of_first: Dict[str, Any] = field(default_factory=dict)
    """What rank 0 saved as its own, for a rank that saved none: there were fewer ranks then."""


class Torn(Exception):
    """A checkpoint is not whole: something is missing, cut short or changed."""
