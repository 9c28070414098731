"""Starts in workers what the launcher's mpirun asks for: the runner's side of the agent.

No ssh and no root: mpirun calls our agent where it would call ssh, the agent hands its standard streams over
a Unix socket, and the runner starts the command inside the named worker, with that worker's environment,
folder and control group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from bireme.backends.local.processes import NotStarted, Output, Program, ProgramProcess, spawn
from bireme.backends.local.warm.zygote_pool import RUNTIME
from bireme.core.replicas import container_env
from bireme.runs import runner_log
from bireme.runtime import wire

_MOST_DESCRIPTORS = 3
"""Standard input, output and error."""

Find = Callable[[str], Program | None]
"""Answers the program of the worker that a host name means, or None when there is none."""


def script(python: str, address: Path) -> str:
    """The text of `/etc/mpi/kubexec.sh`, which mpirun and horovodrun call in place of ssh."""
    return f'#!/bin/sh\nexec "{python}" -S -E "{RUNTIME / "mpi/agent.py"}" "{address}" "$@"\n'


class AgentServer:
    """Listens for agents of one run and starts what they ask for."""

    def __init__(self, address: Path, find: Find, tasks: asyncio.TaskGroup) -> None:
        self._find = find
        self._tasks = tasks
        self._socket = wire.listen(str(address))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer, _ = self._socket.accept()
            peer.setblocking(False)
            self._tasks.create_task(self._serve(peer))

    async def _serve(self, peer: socket.socket) -> None:
        """Start what is asked for, wait for its end and answer, also where the request makes no sense."""
        descriptors: list[int] = []
        try:
            try:
                process = self._start(await self._request(peer, descriptors), descriptors)
            except (wire.WireError, NotStarted, container_env.Unresolved, OSError, ValueError) as error:
                runner_log.say(f"a request of an MPI agent was refused: {error}"[:500])
                answer: wire.Message = {"code": 255, "error": str(error)}
            else:
                answer = {"code": await self._until_either_ends(process, peer)}
            with contextlib.suppress(OSError):
                await self._loop.sock_sendall(peer, wire.pack(answer))
        except Exception as error:
            # Anything may come in here, and an error that left this task would end the runner with its ranks.
            runner_log.say(f"a request of an MPI agent was dropped: {type(error).__name__}: {error}"[:500])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
            peer.close()

    async def _request(self, peer: socket.socket, descriptors: list[int]) -> wire.Message:
        unpacker = wire.Unpacker()
        while True:
            await _readable(self._loop, peer)
            try:
                data, received = wire.receive_some(peer)
            except BlockingIOError:
                continue
            descriptors += received
            if len(descriptors) > _MOST_DESCRIPTORS:
                raise wire.WireError(f"a request came with more than {_MOST_DESCRIPTORS} open files")
            if not data:
                raise wire.WireError("the connection ended before a whole request came")
            for message in unpacker.feed(data):
                return message

    def _start(self, message: wire.Message, descriptors: list[int]) -> ProgramProcess:
        if len(descriptors) != _MOST_DESCRIPTORS:
            raise NotStarted(f"a request needs three file descriptors, {len(descriptors)} came")
        host = str(message.get("host", ""))
        program = self._find(host.partition(".")[0])
        if program is None:
            raise NotStarted(f"no worker of this job is called {host}, or it is not running now")
        words = ("/bin/sh", "-c", str(message.get("command", "")))
        within = Program(words, program.environment, program.folder, program.cgroups, program.mounts)
        return spawn(within, Output(descriptors[1], descriptors[2], descriptors[0]))

    async def _until_either_ends(self, process: ProgramProcess, peer: socket.socket) -> int:
        """Wait for the command; kill it if its agent, which mpirun knows, is gone before."""

        async def gone() -> None:
            while True:
                await _readable(self._loop, peer)
                try:
                    if not peer.recv(1):
                        return
                except BlockingIOError:
                    continue
                except OSError:
                    return

        ended = asyncio.ensure_future(process.wait())
        left = asyncio.ensure_future(gone())
        try:
            await asyncio.wait({ended, left}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                process.signal(signal.SIGKILL)
            return await ended
        finally:
            if not ended.done():
                process.signal(signal.SIGKILL)
            for task in (left, ended):
                task.cancel()
            # Both watch descriptors that the caller is about to close.
            await asyncio.gather(left, ended, return_exceptions=True)


async def _readable(loop: asyncio.AbstractEventLoop, peer: socket.socket) -> None:
    ready = asyncio.Event()
    loop.add_reader(peer.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(peer.fileno())
