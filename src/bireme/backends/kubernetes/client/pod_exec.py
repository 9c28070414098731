"""Runs a command inside a container and reads what it prints: the exec API over a WebSocket.

Messages begin with the number of their channel: input, output, errors, and at last how it ended.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import Struct

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.api_errors import DISCONNECTED, UNREADABLE, RequestOrigin
from bireme.backends.kubernetes.client.decoding import decoded
from bireme.backends.kubernetes.client.paths import path

PROTOCOL = "v5.channel.k8s.io"
STDIN, STDOUT, STDERR, END = 0, 1, 2, 3
CLOSE = 255
"""Ends a channel; new in the fifth version of the protocol, without which input never ends."""
CHUNK = 32 * 1024
MOST_PRINTED = 256 << 20
"""Bytes that a command may print: it runs in a container of whoever made the image."""
_EXIT_CODE = re.compile(r"[0-9]{1,3}")


class Executed(Struct, frozen=True):
    """What a command printed, and its exit status."""

    stdout: bytes
    stderr: bytes
    exit_code: int


async def exec(
    api: Api, namespace: str, pod: str, container: str, command: list[str], stdin: bytes | None = None
) -> Executed:
    """Runs a command in a container until it ends; put a limit around it.

    A command that cannot be started is an ApiError, an exit status other than 0 is a result.
    """
    query = [("command", each) for each in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    if stdin is not None:
        query.append(("stdin", "true"))
    where = path("v1", "pods", namespace, pod, "exec")
    socket = await api.socket(f"{where}?{urlencode(query, quote_via=quote)}", PROTOCOL)
    try:
        if stdin is not None:
            for start in range(0, len(stdin), CHUNK):
                await socket.send_bytes(bytes([STDIN]) + stdin[start : start + CHUNK])
            await socket.send_bytes(bytes([CLOSE, STDIN]))
        printed: dict[int, list[bytes]] = {STDOUT: [], STDERR: [], END: []}
        room = MOST_PRINTED
        async for message in socket:
            data = message.data
            if isinstance(data, bytes) and data and data[0] in printed:
                room -= len(data)
                if room < 0:
                    raise ApiError(0, UNREADABLE, f"the command prints more than {MOST_PRINTED >> 20} MiB")
                printed[data[0]].append(data[1:])
    finally:
        await socket.close()
    source = RequestOrigin(api.access.server, api.access.context, api.access.user, "GET", where)
    return Executed(
        b"".join(printed[STDOUT]), b"".join(printed[STDERR]), exit_code(b"".join(printed[END]), source)
    )


class _Ended(Struct):
    status: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: dict[str, Any] | None = None  # JSON of the server's choice


def exit_code(said: bytes, source: RequestOrigin) -> int:
    """How a command ended, as the server tells it at last."""
    if not said:
        raise ApiError(0, DISCONNECTED, "the connection ended before the command did", source=source)
    ended: _Ended = decoded(said, _Ended, source)
    if ended.status == "Success":
        return 0
    causes = (ended.details or {}).get("causes")
    for cause in causes if isinstance(causes, list) else ():
        code = str(cause.get("message")) if isinstance(cause, dict) else ""
        if _EXIT_CODE.fullmatch(code) and cause.get("reason") == "ExitCode":
            return int(code)
    raise ApiError(
        ended.code or 500, ended.reason or "InternalError", ended.message, ended.details, source=source
    )
