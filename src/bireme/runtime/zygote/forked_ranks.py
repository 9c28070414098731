"""What does a zygote know of a rank that it forked, and how does nothing of it remain.

The zygote adopts orphans, so every process that a rank has ever started is a descendant of the zygote.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Collection, List, Mapping, Optional

from .. import linux, wire


@dataclass
class Rank:
    """One child, from its fork until nothing of it is left."""

    order: wire.ForkRequest
    pid: int
    start_time: Optional[int]
    setup: Optional[int]  # a pipe on which it tells how it was set up; None once it has
    told: bytes = b""  # what came on that pipe so far
    reaped: bool = False


def kill_remains(doomed: List[Rank], live: Collection[int]) -> List[Rank]:
    """Kills whatever lives of these ranks; returns those of which something was left. Call until none is.

    `live` are the pids of all ranks that have not been reaped.
    """
    family = linux.family(os.getpid())
    return [rank for rank in doomed if _kill(rank, live, family)]


def _kill(rank: Rank, live: Collection[int], family: Mapping[int, linux.Process]) -> bool:
    victims = [pid for pid in family if _belongs(pid, rank, live, family)]
    if not rank.reaped:
        victims.append(rank.pid)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(victims)


def _belongs(pid: int, rank: Rank, live: Collection[int], family: Mapping[int, linux.Process]) -> bool:
    """Whether a descendant of ours comes from this rank: by descent, by session, or by its mark."""
    top = pid
    while family[top].parent in family:
        top = family[top].parent
    if top in live:
        return top == rank.pid and not rank.reaped
    # An orphan that we have adopted. Its session keeps the number of the dead rank from being given anew.
    if family[pid].session == rank.pid:
        return True
    mark = rank.order.env.get(wire.MARK)
    return bool(mark) and linux.variable_of(pid, wire.MARK) == mark
