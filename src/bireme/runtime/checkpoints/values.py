"""The values of checkpoints: whose they are, which are kept, what was found and what was restored.

These are named tuples: as dataclasses they would cost the start of every script some milliseconds.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple


class Owner(NamedTuple):
    """What saves: one rank of one attempt of a run."""

    run: str
    rank: int = 0
    world_size: int = 1
    attempt: int = 0
    launch: str = ""
    """What the ranks of one launch have in common, where nothing says which run and attempt they are."""


class Keep(NamedTuple):
    """Which checkpoints stay: the last ones, and the best ones by a metric (`mode` is min or max)."""

    last: int = 3
    best: int = 0
    metric: str = ""
    mode: str = "min"


class FoundCheckpoint(NamedTuple):
    """A checkpoint that is there, whether it can be restored, and if not, why."""

    name: str
    step: int
    metrics: Dict[str, float]
    when: float = 0.0
    size: int = 0
    world_size: int = 0
    run: str = ""
    is_good: bool = True
    why_not: str = ""
    is_torn: bool = False
    """Provably: what is not good and not torn cannot be read here or now, and must not be removed."""


class Restored(NamedTuple):
    """What came back. `values` holds each part that was asked for; `own` is empty if this rank saved none."""

    step: int
    values: Dict[str, Any]
    own: Dict[str, Any]
    world_size: int
    name: str
    of_first: Dict[str, Any]
    """What rank 0 saved as its own, for a rank that saved none: there were fewer ranks then."""


class Torn(Exception):
    """A checkpoint is provably not whole: something is missing, cut short or changed."""


class Unreadable(Exception):
    """A checkpoint may be whole, and cannot be read: by this Bireme, or just now."""
