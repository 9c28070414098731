"""Shows an installation. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bireme.backends.kubernetes.rollouts import Standing
    from bireme.operator.install.installing import Done

_MOST_NAMED = 10


def line(one: Done, *, dry_run: bool = False) -> str:
    """What became of one object; of a trial, what would become of it."""
    where = f" in namespace {one.namespace}" if one.namespace else ""
    trial = " (dry run)" if dry_run else ""
    return f"{one.outcome:9} {one.kind} {one.name}{where}{trial}"


def conclusion(operator: Standing | None, namespace: str) -> str:
    """How an installation ended that nothing stood in the way of."""
    if operator is None:
        return f"the operator is in namespace {namespace}; how it fares: bireme doctor --on kubernetes"
    return f"the operator runs in namespace {namespace} with image {operator.image}"


def listed(jobs: Sequence[str]) -> str:
    """The names of jobs, or of the first of many."""
    more = len(jobs) - _MOST_NAMED
    named = ", ".join(jobs[:_MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
