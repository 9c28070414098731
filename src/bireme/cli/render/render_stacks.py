"""Shows the stacks of ranks: where each one is, then every thread of each. Pure."""

from __future__ import annotations

from bireme.sdk.views import JobStacks, RankStack


def lines(found: JobStacks) -> list[str]:
    """A line for each rank, so that they can be compared, and then their stacks."""
    heads = [f"{one.title}  {one.where or one.problem or 'it runs no Python code'}" for one in found.ranks]
    return heads + [line for one in found.ranks for line in _stack(one)]


def _stack(one: RankStack) -> list[str]:
    if not one.threads:
        return []
    told = ["", f"{one.title}, process {one.pid}:"]
    for thread in one.threads:
        told += [f"  {line}" for line in thread]
    return told
