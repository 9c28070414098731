"""What does a zygote know of a runner: its connection, what came on it, and what was started for it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import List, Optional

from .. import wire
from .forked_ranks import Rank

_MOST_UNSENT = 4 * 1024 * 1024  # a runner that reads nothing is given up


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
