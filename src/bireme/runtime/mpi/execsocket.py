"""Runs a command in a pod from another one: the exec API over a WebSocket, with nothing to install."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import select
import socket
import time
import urllib.parse
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

_ANSWER = 30.0  # Seconds for the API server to answer a request.
_PING = 20.0  # Seconds after which a silent connection is asked whether it lives.
_DEAD = 90.0  # Seconds of silence after which it does not.

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_HALF_CLOSES = _PROTOCOLS[0]
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_TEXT, _BINARY, _END, _ASK, _REPLY = 1, 2, 8, 9, 10
_LONGEST = 64 << 20  # Bytes of a message; the API server's are below a hundred thousand.
_LONGEST_HEAD = 1 << 20
_STATUS_LINE = re.compile(r"HTTP/[0-9.]+ ([0-9]{3})(?: |$)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_EXIT_CODE = re.compile(r"[0-9]{1,3}")
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Refused(Exception):
    """A command that was not started: why, and whether it may be later."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code
        """The HTTP status, or 0 where there was none."""


@dataclass(frozen=True)
class Worker:
    """Where a command is started, and the service account that asks for that."""

    server: Tuple[str, int]
    account: str
    container: str
    pod: str

    def read(self, name: str) -> str:
        path = os.path.join(self.account, name)
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except OSError:
            raise Refused(
                f"the launcher has no service account ({path} is missing); remove "
                "automountServiceAccountToken: false from its template",
                401,
            ) from None

    def url(self, sub: str = "", query: Sequence[Tuple[str, str]] = ()) -> str:
        where = f"/api/v1/namespaces/{self.read('namespace')}/pods/{urllib.parse.quote(self.pod)}{sub}"
        return f"{where}?{urllib.parse.urlencode(query)}" if query else where


class ExecSession:
    """One command in one pod, from its start to its end."""

    def __init__(
        self, worker: Worker, command: Sequence[str], stdin: Optional[int], limit: float = 0.0
    ) -> None:
        words = [("command", word) for word in command]
        streams = [("stdin", "true")] if stdin is not None else []
        streams += [("stdout", "true"), ("stderr", "true")]
        self._url = worker.url("/exec", [("container", worker.container), *words, *streams])
        self._worker, self._stdin = worker, stdin
        self._deadline = time.monotonic() + limit if limit else None
        self._unsent = b""
        self._began = False

    def run(self) -> int:
        """The command's exit code, once it has ended."""
        key = base64.b64encode(os.urandom(16))
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Protocol": ", ".join(_PROTOCOLS),
        }
        connection, status, head = _request(self._worker, self._url, upgrade)
        with connection:
            if status != 101:
                raise Refused(_explained(status, _body(connection, head)), status)
            accepted = base64.b64encode(hashlib.sha1(key + _GUID).digest()).decode()
            if head.fields.get("sec-websocket-accept") != accepted:
                raise Refused("what answers is no API server")
            half_closes = head.fields.get("sec-websocket-protocol") == _HALF_CLOSES
            try:
                return self._relay(connection, Frames(head.rest), half_closes)
            except OSError as error:
                raise self._lost(str(error)) from error

    def _relay(self, connection: Any, frames: Frames, half_closes: bool) -> int:
        import ssl

        not_now = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)
        connection.setblocking(False)
        heard = asked = time.monotonic()
        while True:
            for kind, payload in frames.complete():
                code = self._take(kind, payload)
                if code is not None:
                    return code
            if self._unsent:
                with contextlib.suppress(*not_now):
                    self._unsent = self._unsent[int(connection.send(self._unsent[:65536])) :]
            # What TLS has decrypted already is in its buffer, not in the socket: `select` would not see it.
            readable = [connection]
            if not connection.pending():
                # While the server does not take what it was sent, no more is read.
                inputs = [connection] if self._stdin is None or self._unsent else [connection, self._stdin]
                readable = select.select(inputs, [connection] if self._unsent else [], [], 1.0)[0]
            now = time.monotonic()
            if connection in readable:
                with contextlib.suppress(*not_now):
                    data = connection.recv(65536)
                    if not data:
                        raise self._lost("the connection was closed")
                    frames.add(data)
                heard = asked = now
            if self._stdin is not None and self._stdin in readable:
                typed = os.read(self._stdin, 32768)
                if typed:
                    self._unsent += frame(_BINARY, bytes((_STDIN,)) + typed)
                else:
                    self._stdin = None
                    if half_closes:  # else the command never sees the end of its input
                        self._unsent += frame(_BINARY, bytes((_CLOSE, _STDIN)))
            if now - heard > _DEAD:
                raise self._lost(f"the API server was silent for {_DEAD:.0f} seconds")
            if now - asked > _PING:
                asked = now
                self._unsent += frame(_ASK, b"")
            if self._deadline is not None and now > self._deadline:
                raise self._lost("it took too long")

    def _take(self, kind: int, payload: bytes) -> Optional[int]:
        """Does with a message what it is for; an exit code ends the session."""
        if kind == _ASK:
            self._unsent += frame(_REPLY, payload)
        elif kind == _END:
            raise self._lost(payload[2:].decode(errors="replace") or "the server closed the connection")
        elif kind in (_TEXT, _BINARY) and payload:
            channel, data = payload[0], payload[1:]
            if channel == _STATUS:
                return exit_code(data, self._began)
            if channel in (_STDOUT, _STDERR) and data:
                self._began = True
                while data:
                    data = data[os.write(channel, data) :]
        return None

    def _lost(self, why: str) -> Refused:
        return Refused(f"the connection to the command was lost: {why}", 422)


def exit_code(said: bytes, began: bool) -> int:
    """How a command ended, as the server tells it at last; raises Refused if it was never started."""
    status = _object(said or b"{}")
    if status.get("status") == "Success":
        return 0
    for cause in _items(_mapping(status.get("details")).get("causes")):
        code = str(cause.get("message", "255"))
        if cause.get("reason") == "ExitCode" and _EXIT_CODE.fullmatch(code):
            return int(code)
    text = str(status.get("message") or "the command could not be started")
    # That a container is not there yet is told after the connection was accepted, as is a wrong command.
    absent = any(
        words in text for words in ("container not found", "not created or running", "is not running")
    )
    raise Refused(text, 503 if absent and not began else 422)


def pod_state(described: bytes) -> str:
    """What has become of a pod, in a few words, by what the API server says of it."""
    stated = _mapping(_object(described).get("status"))
    waits = [
        _mapping(_mapping(container.get("state")).get("waiting"))
        for container in _items(stated.get("containerStatuses"))
    ]
    reason = next((wait["reason"] for wait in waits if wait.get("reason")), "")
    return f"{stated.get('phase', 'in an unknown state')}{f' ({reason})' if reason else ''}"


def frame(kind: int, payload: bytes) -> bytes:
    """A message as a client sends it: whole, and masked as the protocol wants it."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | kind, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | kind, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | kind, 0x80 | 127)) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    stream = int.from_bytes((mask * (size // 4 + 1))[:size], "big")
    return head + mask + (int.from_bytes(payload, "big") ^ stream).to_bytes(size, "big")


class Frames:
    """Puts messages together from what arrives."""

    def __init__(self, first: bytes = b"") -> None:
        self._data = bytearray(first)
        self._kind = 0
        self._parts = bytearray()

    def add(self, data: bytes) -> None:
        self._data += data

    def complete(self) -> Iterator[Tuple[int, bytes]]:
        """The kind and the content of each message of which all has arrived."""
        data = self._data
        while len(data) >= 2:
            size, start = data[1] & 0x7F, 2
            if size > 125:
                start = 4 if size == 126 else 10
                size = int.from_bytes(data[2:start], "big") if len(data) >= start else 0
            if size > _LONGEST:
                raise _too_long(size)
            if len(data) < start + size:
                return
            is_last, kind, payload = data[0] & 0x80, data[0] & 0x0F, bytes(data[start : start + size])
            del data[: start + size]
            if kind >= _END:
                yield kind, payload  # It may come between the parts of another message.
                continue
            self._kind = kind or self._kind
            self._parts += payload
            if len(self._parts) > _LONGEST:
                raise _too_long(len(self._parts))
            if is_last:
                whole, self._parts = bytes(self._parts), bytearray()
                yield self._kind, whole


def get(worker: Worker) -> bytes:
    """The worker's pod as the API server describes it; raises Refused where it does not."""
    connection, status, head = _request(worker, worker.url(), {})
    with connection:
        body = _body(connection, head)
    if status != 200:
        raise Refused(_explained(status, body), status)
    return body


def refusal(worker: Worker, error: Refused) -> str:
    """Why a command does not run in a worker, for the person who waits for it."""
    if error.code == 401:
        return f"the API server does not know the launcher: {error}"
    if error.code == 403:
        return (
            f"the launcher may not start commands in {worker.pod}: it may in the workers of its own job, "
            f"once they exist and for as long as they do ({error})"
        )
    if error.code == 404:
        return f"no pod {worker.pod} is there; is it a worker of this job? ({error})"
    try:
        state = pod_state(get(worker))
    except (Refused, OSError):
        state = ""
    where = f"{worker.pod}{f', which is {state}' if state else ''}"
    return f"nothing runs in {where}: {error}; see `kubectl describe pod {worker.pod}`"


@dataclass(frozen=True)
class AnswerHead:
    """The head of an answer, and what came with it of what follows."""

    fields: Dict[str, str]
    rest: bytes


def _request(worker: Worker, url: str, fields: Mapping[str, str]) -> Tuple[Any, int, AnswerHead]:
    """Sends a request and returns the open connection, the status and the head of the answer."""
    import ssl  # The local agent shares this file, and does without.

    token, trusted = worker.read("token"), os.path.join(worker.account, "ca.crt")
    host, port = worker.server
    try:
        context = ssl.create_default_context(cafile=trusted)
        plain = socket.create_connection((host, port), timeout=_ANSWER)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = context.wrap_socket(plain, server_hostname=host)
        named = f"[{host}]" if ":" in host else host
        lines = [f"GET {url} HTTP/1.1", f"Host: {named}:{port}", f"Authorization: Bearer {token}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                raise OSError("it closed the connection")
            data += more
            if len(data) > _LONGEST_HEAD:
                raise OSError(f"its answer begins with more than {_LONGEST_HEAD} bytes of headers")
        status, head = read_head(data)
    except OSError as error:
        raise Refused(f"the API server at {host}:{port} does not answer: {error}") from error
    return connection, status, head


def read_head(data: bytes) -> Tuple[int, AnswerHead]:
    """Parts the beginning of an answer; raises OSError for what is no answer of a web server."""
    text, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = text.decode("latin-1").split("\r\n")
    status = _STATUS_LINE.match(first)
    if status is None:
        raise OSError(f"it does not speak HTTP: {first[:80]!r}")
    parted = (line.partition(":") for line in lines)
    fields = {name.strip().lower(): value.strip() for name, _, value in parted}
    return int(status[1]), AnswerHead(fields, rest)


def _body(connection: Any, head: AnswerHead) -> bytes:
    length = head.fields.get("content-length", "0")
    wanted = int(length) if _LENGTH.fullmatch(length) else 0
    data = bytearray(head.rest)
    while len(data) < min(wanted, _LONGEST):
        more = connection.recv(65536)
        if not more:
            break
        data += more
    return bytes(data)


def _explained(status: int, body: bytes) -> str:
    said = _object(body)
    message = said.get("message") if said else body[:300].decode(errors="replace").strip()
    return str(message or f"the API server answers {status}")


def _object(text: bytes) -> Dict[str, Any]:
    """The JSON object in a text that may be anything; an empty one if there is none."""
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _mapping(found: Any) -> Dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _items(found: Any) -> List[Dict[str, Any]]:
    """The objects in a list that may be anything."""
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _too_long(size: int) -> Refused:
    return Refused(f"the server sends a message of {size} bytes; at most {_LONGEST} are accepted", 422)
