"""A TCP forwarder before an API server that cuts a connection between a request and its answer."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import SystemRandom

from bireme.backends.kubernetes.client.access import find

LIMIT = 60.0
"""Seconds without a byte after which a connection is given up."""


class Cutter:
    """Speaks TLS to the API server and plain HTTP to its client, so that it can tell requests apart."""

    def __init__(self, kubeconfig: Path, cuts: Callable[[bytes], bool]) -> None:
        """Cuts the first connection whose request `cuts` says yes to: the server has answered by then."""
        access = find(time, SystemRandom(), kubeconfig=str(kubeconfig))
        context = access.ssl()
        assert context is not None
        self._context: ssl.SSLContext = context
        host, _, port = access.server.removeprefix("https://").partition(":")
        self._upstream = (host, int(port))
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.server = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut = 0

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def close(self) -> None:
        # Closing alone does not wake who waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _forward(self, client: socket.socket) -> None:
        """One request at a time, as HTTP/1.1 without pipelining has it."""
        plain = socket.create_connection(self._upstream, LIMIT)
        with client, self._context.wrap_socket(plain, server_hostname=self._upstream[0]) as server:
            client.settimeout(LIMIT)
            with contextlib.suppress(OSError):
                while request := _message(client):
                    server.sendall(request)
                    answer = _message(server)
                    if not self.cut and self._cuts(request):
                        self.cut += 1
                        return
                    client.sendall(answer)


@contextlib.contextmanager
def cutting(kubeconfig: Path, cuts: Callable[[bytes], bool]) -> Iterator[Cutter]:
    one = Cutter(kubeconfig, cuts)
    thread = threading.Thread(target=one.serve, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        one.close()
        thread.join(LIMIT)


def _message(peer: socket.socket) -> bytes:
    """One whole HTTP message with a length or in chunks; empty if the peer has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := peer.recv(65536)):
            return b""
        data += more
    head, _, _ = data.partition(b"\r\n\r\n")
    while not _is_whole(head.lower(), data[len(head) + 4 :]):
        if not (more := peer.recv(65536)):
            break
        data += more
    return data


def _is_whole(head: bytes, body: bytes) -> bool:
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    _, mark, rest = head.partition(b"content-length:")
    return not mark or len(body) >= int(rest.split(b"\r\n")[0])
