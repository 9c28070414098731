"""Forks of the zygote that wait for an order, so that no rank waits for its fork.

A fork copies the page tables of all that is imported, which takes 11 ms with torch, and whatever joins a
control group meanwhile waits for it. So an idle zygote forks a few children in advance. A spare is as its
zygote was when its imports were done; all that makes a rank of it happens when the order comes, as in a child
that is forked then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from typing import List, Sequence, Tuple

from .. import wire

_PATIENCE = 1.0  # how long a spare may take to accept an order; a stopped one would hold up the zygote


@dataclass(frozen=True)
class Spare:
    """A child that waits at the other end of a socket."""

    pid: int
    socket: socket.socket

    def accept(self, order: wire.ForkRequest, fds: Sequence[int]) -> bool:
        """Gives it an order with its descriptors; False if it does not take it, and then it is ended."""
        self.socket.settimeout(_PATIENCE)
        try:
            wire.Channel(self.socket).send(order.message(), fds)
        except OSError:
            self.end()
            return False
        self.socket.close()
        return True

    def end(self) -> None:
        """Ends it, and waits until nothing is left of it."""
        self.socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def await_order(zygote: socket.socket) -> Tuple[wire.ForkRequest, List[int]]:
    """Waits in a spare for its order and its descriptors; the process ends if the zygote wants none of it."""
    unpacker = wire.Unpacker()
    orders: List[wire.Message] = []
    fds: List[int] = []
    while not orders:
        data, more = wire.receive_some(zygote)
        if not data:
            os._exit(0)
        fds += more
        orders = unpacker.feed(data)
    zygote.close()
    return wire.read_fork_request(orders[0]), fds
