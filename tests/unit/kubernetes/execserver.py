"""How do tests play the part of an API server that serves exec: over TLS, with real programs behind it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from aiohttp import WSMsgType, web

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"

Refusal = tuple[int, str]
"""A status and a message. Status 0 means that the connection is accepted and the message told in it."""


class ExecServer:
    """An API server that knows one thing: to run a command where a pod would be.

    As the real one, it leaves a command running whose client is gone.
    """

    def __init__(self, protocols: tuple[str, ...] = (V5, V4)) -> None:
        self.protocols = protocols
        self.refusals: list[Refusal] = []
        self.requests: list[web.Request] = []
        self.cuts_after_first_output = False
        self.port = 0
        self._processes: list[asyncio.subprocess.Process] = []

    async def end(self) -> None:
        """Ends every command that is left."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None and refusal[0]:
            return web.json_response({"kind": "Status", "message": refusal[1]}, status=refusal[0])
        channels = web.WebSocketResponse(protocols=self.protocols)
        await channels.prepare(request)
        if refusal is not None:
            status = {"status": "Failure", "reason": "InternalError", "message": refusal[1]}
            await channels.send_bytes(b"\x03" + json.dumps(status).encode())
        else:
            await self._run(request, channels)
        await channels.close()
        return channels

    async def describe(self, request: web.Request) -> web.Response:
        waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        return web.json_response({"status": {"phase": "Pending", "containerStatuses": [waiting]}})

    async def _run(self, request: web.Request, channels: web.WebSocketResponse) -> None:
        has_input = request.query.get("stdin") == "true"
        process = await asyncio.create_subprocess_exec(
            *request.query.getall("command"),
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stderr is not None
        listening = asyncio.ensure_future(_listen(process, channels))
        await asyncio.gather(self._copy(process.stdout, 1, channels), self._copy(process.stderr, 2, channels))
        code = await process.wait()
        listening.cancel()
        if not channels.closed:
            await channels.send_bytes(b"\x03" + json.dumps(_status(code)).encode())

    async def _copy(self, source: asyncio.StreamReader, channel: int, to: web.WebSocketResponse) -> None:
        while data := await source.read(65536):
            if not to.closed:
                await to.send_bytes(bytes((channel,)) + data)
            if self.cuts_after_first_output:
                await to.close(message=b"the node is going down")


async def _listen(process: asyncio.subprocess.Process, channels: web.WebSocketResponse) -> None:
    async for message in channels:
        assert message.type is WSMsgType.BINARY
        assert process.stdin is not None
        if message.data[0] == 255:
            process.stdin.close()
        else:
            process.stdin.write(message.data[1:])
            await process.stdin.drain()


def _status(code: int) -> dict[str, object]:
    if code == 0:
        return {"status": "Success"}
    # The program runs under a shell; one that was killed by a signal ends as shells tell it.
    told = code if code > 0 else 128 - code
    causes = [{"reason": "ExitCode", "message": str(told)}]
    return {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}


@contextlib.contextmanager
def serving(server: ExecServer, certificate: Path) -> Iterator[None]:
    """Serves on a free port of this machine, in a thread of its own."""
    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/exec", server.serve)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}", server.describe)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(certificate)

    async def start() -> int:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust).start()
        port: int = runner.addresses[0][1]
        return port

    server.port = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        # First the commands: what relays them ends by itself when they have.
        for last in (server.end(), runner.cleanup()):
            asyncio.run_coroutine_threadsafe(last, loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def certify(folder: Path) -> Path:
    """Makes a certificate for this machine; the same file holds its key."""
    path = folder / "server.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=tests", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        ["openssl", *words, *names, "-keyout", path, "-out", path], check=True, capture_output=True
    )
    return path
