"""Do object stores work that cannot do all that S3 can, and is cleared what an earlier version left?"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bireme.runtime.checkpoints.storage.folder_store import FolderStore
from bireme.runtime.checkpoints.values import Owner
from tests.unit.checkpoints.building import keeping

DAY = 24 * 3600.0


class Unconditional(BaseHTTPRequestHandler):
    """A store that does not know conditional requests, as some S3 gateways."""

    seen: Counter[str]

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        is_conditional = bool({"if-none-match", "if-match"} & {name.lower() for name in self.headers})
        self.seen["conditional" if is_conditional else "plain"] += 1
        body = b"<Error><Code>NotImplemented</Code></Error>" if is_conditional else b""
        self.send_response(501 if is_conditional else 200)
        self.send_header("ETag", '"x"')
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def unconditional() -> Iterator[tuple[str, Counter[str]]]:
    seen: Counter[str] = Counter()
    handler = type("Handler", (Unconditional,), {"seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_a_store_without_conditional_requests_is_used_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    from bireme.runtime.checkpoints.storage.object_store import Bucket

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    with unconditional() as (endpoint, seen):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        bucket = Bucket("s3://bucket/prefix")

        assert bucket.put_if("owner.json", b"x", None)
        tried = seen["conditional"]
        assert bucket.put_if("owner.json", b"x", '["\\"x\\"", null]')

    assert seen["conditional"] == tried > 0
    assert seen["plain"] == 2


LEFT = (".staging-120-0-ab12cd34", ".trash-01020304", ".owner-0011223344556677.partial")


def leave(where: Path, age: float) -> None:
    """What a version before this one, which was killed, has left behind."""
    for name in LEFT:
        path = where / name
        if name.endswith(".partial"):
            path.touch()
        else:
            path.mkdir()
            (path / "rank-0.bin").touch()
        os.utime(path, (time.time() - age,) * 2)


def test_what_an_earlier_version_left_is_cleared_after_a_day(tmp_path: Path) -> None:
    leave(tmp_path, 2 * DAY)
    (tmp_path / ".trash-mine").mkdir()
    os.utime(tmp_path / ".trash-mine", (0, 0))

    with keeping(tmp_path) as one:
        one.save(1, {"x": 1}, {}, {})

    assert sorted(path.name for path in tmp_path.glob(".*")) == [".trash-mine"]


def test_what_an_earlier_version_may_still_write_is_left_alone(tmp_path: Path) -> None:
    leave(tmp_path, DAY / 2)

    FolderStore(str(tmp_path)).clear(Owner("run"), "aa")

    assert sorted(path.name for path in tmp_path.glob(".*")) == sorted(LEFT)
