"""How are requests sent as cheaply as Python can: over kept connections, answers hardly read."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # the answers are JSON of any shape
from urllib.parse import urlsplit

from bireme.backends.kubernetes.client import access

PIECE = 1 << 18
_JSON = {"Content_Type": "application/json"}


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """One request as it goes over the wire; a header's name is written with underscores."""
    lines = [f"{method} {path} HTTP/1.1", "Host: kubernetes", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Line:
    """One connection to the API server, with one request at a time."""

    def __init__(self, kubeconfig: Path, patience: float | None = 120.0) -> None:
        self._access, self._patience = access.find(kubeconfig=str(kubeconfig)), patience
        self._open()

    def _open(self) -> None:
        place = urlsplit(self._access.server)
        raw = socket.create_connection((place.hostname, place.port), self._patience)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = self._access.ssl() or ssl.create_default_context()
        self._socket = context.wrap_socket(raw, server_hostname=place.hostname)
        self._rest = b""

    def send(self, whole: bytes) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer."""
        status, head = self._ask(whole)
        if b"chunked" in head:
            return status, b"".join(self._chunks())
        length = int(_header(head, b"content-length") or 0)
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return status, body

    def stream(self, whole: bytes) -> Iterator[bytes]:
        """Send a request and yield its answer line by line, until the server ends it."""
        status, head = self._ask(whole)
        if status != 200:
            raise SystemExit(f"the API server answered {status} to {whole.splitlines()[0].decode()}")
        assert b"chunked" in head
        text = b""
        for chunk in self._chunks():
            *lines, text = (text + chunk).split(b"\n")
            yield from lines

    def get(self, path: str, **headers: str) -> Any:
        """Read an object."""
        return self.call("GET", path, **headers)

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Send an object and read one; anything but success ends the run."""
        data = b"" if body is None else json.dumps(body).encode()
        status, answer = self.send(request(method, path, data, **{**_JSON, **headers}))
        if status >= 300:
            raise SystemExit(f"the API server answered {status} to {method} {path}: {answer[:500]!r}")
        return json.loads(answer) if answer.startswith(b"{") else answer.decode()

    def ensure(self, path: str, body: object) -> None:
        """Create an object that may be there already."""
        status, answer = self.send(request("POST", path, json.dumps(body).encode(), **_JSON))
        if status >= 300 and status != 409:
            raise SystemExit(f"the API server answered {status} to POST {path}: {answer[:500]!r}")

    def close(self) -> None:
        # A thread that waits for the next line of a watch is woken by this, not by a plain close.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _ask(self, whole: bytes) -> tuple[int, bytes]:
        try:
            self._socket.sendall(whole)
            self._more()
        except ConnectionError:
            if not whole.startswith(b"GET "):
                raise
            # The server closes a connection that was idle for long.
            self._open()
            self._socket.sendall(whole)
        while (end := self._rest.find(b"\r\n\r\n")) < 0:
            self._more()
        head, self._rest = self._rest[:end].lower(), self._rest[end + 4 :]
        return int(head[9:12]), head

    def _chunks(self) -> Iterator[bytes]:
        while True:
            while (end := self._rest.find(b"\r\n")) < 0:
                self._more()
            length = int(self._rest[:end], 16)
            whole = end + 2 + length + 2
            while len(self._rest) < whole:
                self._more()
            piece, self._rest = self._rest[end + 2 : whole - 2], self._rest[whole:]
            if not length:
                return
            yield piece

    def _more(self) -> None:
        piece = self._socket.recv(PIECE)
        if not piece:
            raise ConnectionError("the API server closed the connection")
        self._rest += piece


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n"):
        key, _, value = line.partition(b":")
        if key == name:
            return value.strip()
    return None
