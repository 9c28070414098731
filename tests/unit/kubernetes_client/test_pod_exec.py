"""Is what a command in a container printed and how it ended read rightly?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.pod_exec import Executed, exec
from tests.unit.kubernetes_client.server import Handler, run, serving

SUCCESS = {"status": "Success"}


def container(end: dict[str, Any] | None, told: list[Any]) -> Handler:
    """Plays a container whose command prints its input and ends like this."""

    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        told.append((request.path, request.query.getall("command"), request.query["container"]))
        data = b""
        while "stdin" in request.query and (message := await socket.receive_bytes()) != b"\xff\x00":
            data += message[1:]
        await socket.send_bytes(b"\x01" + data[:3])
        await socket.send_bytes(b"\x02oh")
        await socket.send_bytes(b"\x01" + data[3:])
        if end is not None:
            await socket.send_bytes(b"\x03" + json.dumps(end).encode())
        await socket.close()
        return socket

    return handler


async def executed(end: dict[str, Any] | None, told: list[Any] | None = None) -> Executed:
    async with serving(container(end, [] if told is None else told)) as where, Api(where) as api:
        return await exec(api, "ns", "a", "main", ["cat", "-"], b"hello")


def test_input_output_and_errors_have_a_channel_each() -> None:
    told: list[Any] = []

    assert run(executed(SUCCESS, told)) == Executed(b"hello", b"oh", 0)
    assert told == [("/api/v1/namespaces/ns/pods/a/exec", ["cat", "-"], "main")]


def test_the_exit_status_is_a_result() -> None:
    causes = [{"reason": "ExitCode", "message": "3"}]

    result = run(executed({"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}))

    assert result.exit_code == 3


def test_a_command_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(ApiError, match="no such program"):
        run(executed({"status": "Failure", "code": 500, "message": "no such program"}))


def test_a_connection_that_breaks_is_not_taken_for_success() -> None:
    with pytest.raises(ApiError, match="ended before the command"):
        run(executed(None))


def test_a_refusal_keeps_its_status() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            return web.Response(status=403)

        async with serving(handler) as where, Api(where) as api:
            with pytest.raises(ApiError) as caught:
                await exec(api, "ns", "a", "main", ["true"])
        assert caught.value.status == 403

    run(story())
