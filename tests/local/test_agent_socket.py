"""Whatever comes in on the MPI agent's socket, and on a zygote's, is answered or dropped; the job goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bireme.backends.local.mpi_agent import AgentServer
from bireme.backends.local.processes import Program
from bireme.runtime import wire

SECONDS = 30.0


def frame(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


JUNK = {
    "no JSON": frame(b"hello"),
    "no object": frame(b"[1, 2]"),
    "no text": frame(b'"\xff\xfe"'),
    "oversize": struct.pack("!I", 1 << 31) + b"x",
    "nested": frame(b"[" * 100_000),
    "cut short": struct.pack("!I", 100) + b"{",
    "nothing": b"",
    "wrong types": frame(b'{"op": 1, "host": {"a": []}, "command": [1]}'),
    "zero byte": frame(b'{"op": "exec", "host": "worker-0", "command": "a\\u0000b"}'),
    "surrogate": frame(b'{"op": "exec", "host": "worker-0", "command": "echo \\ud800"}'),
    "long command": frame(json.dumps({"host": "worker-0", "command": "x" * 3_000_000}).encode()),
    "unresolved": frame(b'{"op": "exec", "host": "broken", "command": "true"}'),
}


def program(name: str) -> Program | None:
    if name == "broken":
        raise OSError("no such folder")
    return Program(("/bin/true",), dict(os.environ), "/") if name == "worker-0" else None


@contextlib.asynccontextmanager
async def server(folder: Path) -> AsyncIterator[str]:
    async with asyncio.TaskGroup() as tasks:
        agents = AgentServer(folder / "agent", program, tasks)
        yield str(folder / "agent")
        agents.close()


async def send(path: str, data: bytes, *, fds: int = 3) -> bytes:
    """Sends bytes with descriptors and returns what is answered until the other end closes."""
    loop = asyncio.get_running_loop()
    null = os.open(os.devnull, os.O_RDWR)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.setblocking(False)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sent = socket.send_fds(sock, [data], [null] * fds) if data and fds else 0
            await loop.sock_sendall(sock, data[sent:])
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        os.close(null)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            async with asyncio.timeout(SECONDS):
                while piece := await loop.sock_recv(sock, 65536):
                    answer += piece
    return answer


async def serves(path: str) -> bool:
    """Whether a proper request is carried out."""
    channel = await asyncio.to_thread(wire.connect, path, SECONDS)
    try:
        with open(os.devnull, "r+b") as null:
            request = {"op": "exec", "host": "worker-0", "command": "exit 7"}
            channel.send(request, (null.fileno(), null.fileno(), null.fileno()))
            return await asyncio.to_thread(channel.receive) == {"code": 7}
    finally:
        channel.close()


@pytest.mark.parametrize("data", JUNK.values(), ids=JUNK)
def test_an_unexpected_message_does_not_end_the_runner(tmp_path: Path, data: bytes) -> None:
    async def story() -> bool:
        async with server(tmp_path) as path:
            await send(path, data)
            await send(path, data, fds=0)
            return await serves(path)

    assert asyncio.run(story())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(frame)), fds=st.integers(0, 5))
def test_no_bytes_end_the_runner(tmp_path_factory: pytest.TempPathFactory, data: bytes, fds: int) -> None:
    async def story() -> bool:
        async with server(tmp_path_factory.mktemp("agent")) as path:
            await send(path, data, fds=fds)
            return await serves(path)

    assert asyncio.run(story())
