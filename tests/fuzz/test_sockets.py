"""Whoever listens on a socket of ours serves the next one, whatever the last one sent."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.backends.local.mpi_agent import AgentServer
from bireme.runtime import linux, wire
from tests.fuzz import mutating
from tests.fuzz.messages import ORDER
from tests.fuzz.mutating import Tree, plain_json
from tests.local.zygotes import SECONDS, Runner, Zygote, wait_until, zygote

INPUTS = 300
SOAK_INPUTS = int(os.environ.get("BIREME_FUZZ_INPUTS", "100000"))
EVERY = 50
"""Connections after which somebody asks whether the server still answers."""
REQUESTS: tuple[Tree, ...] = (
    {"op": "status"},
    {"op": "signal", "id": "rank-0", "signal": 15},
    json.loads(json.dumps(ORDER.message())),
    {"op": "exec", "host": "worker-0", "command": "true"},
)
DEEP = b"[" * mutating.DEPTH + b"]" * mutating.DEPTH


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with zygote(tmp_path_factory.mktemp("zygote") / "z", idle=3600) as found:
        yield found


@pytest.fixture
def runner(started: Zygote) -> Iterator[Runner]:
    connected = started.connect()
    yield connected
    connected.close()


@pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")
def test_a_zygote_survives_what_is_sent_to_it(started: Zygote) -> None:
    _bother(started, "bireme", INPUTS)


@pytest.mark.soak
@pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")
def test_a_zygote_survives_what_is_sent_to_it_for_long(started: Zygote) -> None:
    seed = _seed()
    print(f"\nzygote socket: {SOAK_INPUTS} connections; again with BIREME_FUZZ_SEED={seed}")

    _bother(started, seed, SOAK_INPUTS)


@pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")
@pytest.mark.parametrize(
    "change",
    [
        {"umask": 10**30},
        {"umask": -1},
        {"limits": {"RLIMIT_NOFILE": [10**30, 10**30]}},
        {"limits": {"RLIMIT_\x00": [1, 1]}},
        {"affinity": [10**30]},
        {"affinity": [-1]},
        {"env": {"A=B\x00": "x"}},
        {"env": {"": ""}},
        {"cgroups": ["\x00"]},
        {"mounts": [["\x00", "\x00", True]]},
        {"cwd": "x" * 100_000},
        {"argv": ["\ud800"]},
    ],
    ids=str,
)
def test_a_start_with_an_impossible_field_ends_only_itself(
    tmp_path: Path, started: Zygote, runner: Runner, change: Tree
) -> None:
    plain = {"op": "start", "id": "1", "argv": ["-m", "this"], "env": {}, "cwd": str(tmp_path)}
    null = os.open(os.devnull, os.O_RDWR)

    with wire.connect(started.path, SECONDS) as channel:
        channel.send({**plain, **change}, (null, null, null))
        answer = channel.receive()
    os.close(null)

    assert answer is not None
    assert answer["op"] in ("started", "refused", "error")
    assert runner.ask("status")["op"] == "status"


@pytest.mark.parametrize(
    "number", [float("inf"), 10**30, "9" * 5000, None, [], -(10**400)], ids=lambda one: str(one)[:9]
)
@pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")
def test_a_signal_that_is_no_number_is_answered(tmp_path: Path, runner: Runner, number: object) -> None:
    (tmp_path / "waits.py").write_text("import signal\nsignal.pause()\n")
    rank, _ = runner.start(tmp_path, str(tmp_path / "waits.py"))

    answer = runner.ask("signal", id=rank.id, signal=number)

    assert answer["op"] == "error"
    assert runner.ask("status")["op"] == "status"


def test_the_socket_of_the_mpi_agent_survives_what_is_sent_to_it(tmp_path: Path) -> None:
    asyncio.run(_bother_agents(tmp_path / "agents", "bireme", INPUTS))


@pytest.mark.soak
def test_the_socket_of_the_mpi_agent_survives_what_is_sent_to_it_for_long(tmp_path: Path) -> None:
    seed = _seed()
    print(f"\nMPI agent socket: {SOAK_INPUTS} connections; again with BIREME_FUZZ_SEED={seed}")

    asyncio.run(_bother_agents(tmp_path / "agents", seed, SOAK_INPUTS))


def _seed() -> str:
    return os.environ.get("BIREME_FUZZ_SEED") or str(random.randrange(10**9))


def _sent(seed: str, count: int) -> Iterator[tuple[int, bytes]]:
    """What is sent, and with how many file descriptors."""
    made = mutating.inputs(seed, tuple(map(wire.pack, REQUESTS)), REQUESTS, _framed)
    corpus = (_framed(DEEP), struct.pack("!I", 2**32 - 1), b"", b"\0" * 4, _framed(b'{"op": NaN}'))
    chance = random.Random(seed)
    for data in itertools.chain(corpus, itertools.islice(made, count)):
        yield chance.choice((0, 0, 0, 1, 16)), data


def _framed(tree: Tree) -> bytes:
    body = tree if isinstance(tree, bytes) else plain_json(tree)
    return struct.pack("!I", len(body)) + body


def _bother(started: Zygote, seed: str, count: int) -> None:
    faithful = started.connect()
    for number, (fds, data) in enumerate(_sent(seed, count)):
        with contextlib.suppress(OSError):  # it may hang up on us before it has heard everything
            _say(started.path, data, fds)
        if number % EVERY == 0:
            assert faithful.ask("status")["op"] == "status", data
    wait_until(lambda: faithful.ask("status")["children"] == 0, "no process is left")
    assert started.process.poll() is None
    faithful.close()


async def _bother_agents(address: Path, seed: str, count: int) -> None:
    """An unexpected message would end the group of tasks, which is the runner's own."""
    async with asyncio.TaskGroup() as tasks:
        server = AgentServer(address, lambda _: None, tasks)
        for number, (fds, data) in enumerate(_sent(seed, count)):
            with contextlib.suppress(OSError):
                await asyncio.to_thread(_say, str(address), data, fds)
            if number % EVERY == 0:
                answer = await asyncio.to_thread(_asked, str(address))
                assert answer is not None, data
                assert answer["code"] == 255
        server.close()


def _say(path: str, data: bytes, fds: int) -> None:
    with wire.connect(path, SECONDS) as channel:
        if data and fds:
            socket.send_fds(channel.socket, [data[:1]], [0] * fds)
            data = data[1:]
        channel.socket.sendall(data)
        channel.socket.shutdown(socket.SHUT_WR)
        while channel.socket.recv(65536):
            pass


def _asked(path: str) -> wire.Message | None:
    with wire.connect(path, SECONDS) as channel:
        channel.send({"op": "exec", "host": "nobody", "command": "true"}, (0, 1, 2))
        return channel.receive()
