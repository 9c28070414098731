"""A request that was received whole was sent, even where its receiver answers and hangs up at once."""

from __future__ import annotations

import socket
from typing import Any

from bireme.runtime import wire


class Hasty(socket.socket):
    """A socket whose peer has answered and closed before the call that sent the request returns."""

    peer: socket.socket

    def sendmsg(self, *args: Any, **options: Any) -> int:
        sent = super().sendmsg(*args, **options)
        self.peer.recv(65536)
        self.peer.sendall(wire.pack({"code": 0}))
        self.peer.close()
        return sent


def test_an_answer_that_comes_at_once_is_received() -> None:
    ours, theirs = socket.socketpair()
    hasty = Hasty(fileno=ours.detach())
    hasty.peer = theirs

    with wire.Channel(hasty) as channel:
        channel.send({"op": "exec"}, (0,))

        assert channel.receive() == {"code": 0}
