"""Holds what a zygote knows of a runner: its connection, what came on it, and the ranks forked for it.

The zygote adopts orphans, so every process that a rank has ever started is a descendant of the zygote: when
a runner goes, nothing of its ranks remains.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Collection, List, Mapping, Optional

from .. import linux, wire

_MOST_UNSENT = 4 * 1024 * 1024  # a runner that reads nothing is given up


@dataclass
class Rank:
    """One child, from its fork until nothing of it is left."""

    order: wire.ForkRequest
    pid: int
    start_time: Optional[int]
    setup: Optional[int]  # a pipe on which it tells how it was set up; None once it has
    told: bytes = b""  # what came on that pipe so far
    reaped: bool = False


@dataclass(eq=False)
class Runner:
    """One connection; nothing here blocks."""

    socket: socket.socket
    ranks: List[Rank] = field(default_factory=list)
    gone: bool = False
    _unpacker: wire.Unpacker = field(default_factory=wire.Unpacker)
    _fds: List[int] = field(default_factory=list)
    _unsent: bytearray = field(default_factory=bytearray)

    def read(self) -> Optional[List[wire.Message]]:
        """The requests that have come in whole; None when the runner is gone."""
        try:
            data, fds = wire.receive_some(self.socket)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError:
            return None
        self._fds += fds
        return self._unpacker.feed(data) if data else None

    def take_fds(self, count: int) -> List[int]:
        """The descriptors that came with the oldest request that has not taken any."""
        taken, self._fds = self._fds[:count], self._fds[count:]
        return taken

    def say(self, message: wire.Message) -> None:
        self._unsent += wire.pack(message)
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self.socket.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            # Gone; the next read says so.
            self._unsent.clear()

    @property
    def waits_to_send(self) -> bool:
        return bool(self._unsent)

    @property
    def is_stuck(self) -> bool:
        return len(self._unsent) > _MOST_UNSENT

    def close(self) -> None:
        self.socket.close()
        for fd in self.take_fds(len(self._fds)):
            os.close(fd)


def kill_remains(doomed: List[Rank], live: Collection[int]) -> List[Rank]:
    """Kills whatever lives of these ranks; returns those of which something was left. Call until none is.

    `live` are the pids of all ranks that have not been reaped.
    """
    family = linux.family(os.getpid())
    left = []
    for rank in doomed:
        victims = [pid for pid in family if _belongs(pid, rank, live, family)]
        if not rank.reaped:
            victims.append(rank.pid)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if victims:
            left.append(rank)
    return left


def _belongs(pid: int, rank: Rank, live: Collection[int], family: Mapping[int, linux.ProcessEntry]) -> bool:
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
