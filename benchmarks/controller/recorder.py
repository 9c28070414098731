"""What does our operator send: every write of one job, taken from the wire on its way to the API server.

The operator speaks plain HTTP to a recorder, which passes each byte on over TLS. What was recorded of one job
is then sent for any number of jobs: only the job's name and uid differ.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from benchmarks.wire import PIECE, request
from bireme.backends.kubernetes.client import access

_WRITES = ("POST", "PUT", "PATCH", "DELETE")
_THINGS = ("pods", "services")


class Sent(Struct, frozen=True):
    """One write as it went over the wire."""

    method: str
    path: str
    content_type: str
    body: bytes

    @property
    def is_of_replicas(self) -> bool:
        """Whether it creates a pod or a service, which every controller has to."""
        return self.method == "POST" and self.path.rpartition("/")[2] in _THINGS

    @property
    def whole(self) -> bytes:
        """The request, to be sent again; a version that it insists on is the recorded job's, and left out."""
        body = self.body
        if self.content_type.startswith("application/json-patch"):
            operations = [one for one in json.loads(body) if one["path"] != "/metadata/resourceVersion"]
            body = json.dumps(operations, separators=(",", ":")).encode()
        headers = {"Content_Type": self.content_type, "Accept": "application/json", "User_Agent": "bare"}
        return request(self.method, self.path, body, **headers)


class Recording(Struct, frozen=True):
    """What was sent for one job."""

    name: str = ""
    uid: str = ""
    starting: tuple[Sent, ...] = ()
    """Up to Running."""
    ending: tuple[Sent, ...] = ()
    """From there to Succeeded."""


class Recorder:
    """Listens on a port of its own and remembers what passes."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._access = access.find(kubeconfig=str(kubeconfig))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sent: list[Sent] = []
        self._lock = threading.Lock()
        self.kubeconfig = folder / "recorded.kubeconfig"
        _write_kubeconfig(self.kubeconfig, self._listener.getsockname()[1])

    @contextlib.contextmanager
    def listening(self) -> Iterator[Recorder]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()

    def take(self) -> tuple[Sent, ...]:
        """Return the writes since the last time."""
        with self._lock:
            taken, self._sent = tuple(self._sent), []
        return taken

    def _accept(self) -> None:
        place = urlsplit(self._access.server)
        context = self._access.ssl()
        assert context is not None
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            raw = socket.create_connection((place.hostname, place.port))
            far = context.wrap_socket(raw, server_hostname=place.hostname)
            for source, sink, heard in ((near, far, _Reader(self._keep)), (far, near, None)):
                threading.Thread(target=_pump, args=(source, sink, heard), daemon=True).start()

    def _keep(self, sent: Sent) -> None:
        if sent.method in _WRITES:
            with self._lock:
                self._sent.append(sent)


class _Reader:
    """Cuts a stream of bytes into requests."""

    def __init__(self, keep: object) -> None:
        assert callable(keep)
        self._keep, self._rest = keep, b""

    def hear(self, piece: bytes) -> None:
        self._rest += piece
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._rest[:end].decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            whole = end + 4 + int(headers.get("content-length", "0"))
            if len(self._rest) < whole:
                return
            body, self._rest = self._rest[end + 4 : whole], self._rest[whole:]
            method, path, _ = first.split(" ")
            self._keep(Sent(method, path, headers.get("content-type", ""), body))


def _pump(source: socket.socket, sink: socket.socket, reader: _Reader | None) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            if reader is not None:
                reader.hear(piece)
            sink.sendall(piece)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _write_kubeconfig(path: Path, port: int) -> None:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "recorded", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "recorded", "user": {}}],
        "contexts": [{"name": "recorded", "context": {"cluster": "recorded", "user": "recorded"}}],
        "current-context": "recorded",
    }
    path.write_text(json.dumps(config))
