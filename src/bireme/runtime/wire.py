"""Carries messages between a runner and a zygote: frames of JSON on a Unix socket, with file descriptors.

A frame is four bytes of length (big-endian) and a JSON object. A connection is one runner. Requests:

    {"op": "status"}
        -> {"op": "status", "pid", "python", "preloaded": [name...], "packages": [name...],
            "failed": [{"name", "error"}...], "versions": {name: version}, "ready": true, "children": n,
            "fingerprint", "stale": bool}
    {"op": "start", ...fields of ForkRequest} with three file descriptors: stdin, stdout, stderr
        -> {"op": "started", "id", "pid", "start_time", "missing": [text...], "warm": bool, "why": text?}
           once the process stands on its own: in its process group, directory, groups and mounts. `missing`
           names groups and limits that were not possible; without its mounts nothing starts. A start that
           could not be served from the imported modules is a fresh interpreter in the same process: `warm`
           is false, `why` says why.
        or {"op": "refused", "id", "error": text, "stale": bool}; no process is left
    {"op": "signal", "id", "signal": n}
        sent to the process group of the rank; nothing is sent once the rank has exited
    {"op": "shutdown"}
        -> {"op": "stopping"}; every rank is killed, the zygote ends
    {"op": "retire"}
        -> {"op": "stopping"} if no other runner is connected and no rank lives: the zygote ends
        or {"op": "busy"}

Pushed when a rank ends: {"op": "exited", "id", "pid", "status": raw wait status, "rusage": {...}}.
A request that makes no sense is answered with {"op": "error", "error": text}.
Closing the connection kills every process that was started on it.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import struct
from dataclasses import asdict, dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

# A message is whatever JSON the other side sent; the readers below give it a type.
Message = Dict[str, Any]

MARK = "BIREME_RUN"  # the variable by which every process of a run is known

# Variables that interpreters, loaders and libraries read once, when they start or are imported. A zygote
# serves only ranks that agree with it in all of them, so a runner keys its zygotes by `at_import(env)`.
# What Python code reads is noted as it is read (see zygote/import_variables.py); this is for compiled code.
_AT_IMPORT = (
    *("PYTHON", "LD_", "LC_", "GOMP_", "KMP_", "MALLOC_", "MKL_", "NPY_", "NUMBA_", "OMP_", "OPENBLAS_"),
    *(
        "HF_",
        "JAX_",
        "KERAS_",
        "LIBXSMM_",
        "MPL",
        "PYTORCH_",
        "TF_",
        "TORCH_",
        "TORCHDYNAMO_",
        "TORCHINDUCTOR_",
    ),
    *("TRANSFORMERS_", "TRITON_", "XDG_", "XLA_"),
)
_AT_IMPORT_EXACTLY = ("GLIBC_TUNABLES", "HOME", "LANG", "TMPDIR")
# Of a login or a terminal: new with each of them, and nothing to compiled code.
_OF_A_SESSION = (
    "XDG_SESSION_",
    "XDG_SEAT",
    "XDG_VTNR",
    "XDG_CURRENT_DESKTOP",
    "XDG_ACTIVATION",
    "LC_TERMINAL",
)
# Read later, or set anew in every rank.
_LATER = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_CONFIG", "PYTHONUNBUFFERED", "PYTHONBREAKPOINT"),
    *("PYTHONSTARTUP", "PYTHONASYNCIODEBUG", "LC_MESSAGES"),
)

_HEAD = struct.Struct("!I")
_LONGEST = 64 * 1024 * 1024
_MOST_FDS = 16
# sun_path holds 108 bytes on Linux and 104 on macOS.
_LONGEST_ADDRESS = 100


class WireError(Exception):
    """The other side sent something that is not a frame of this protocol."""


@dataclass(frozen=True)
class ForkRequest:
    """One rank to start; `argv` is `[-m] TARGET args...` as after `python`."""

    id: str
    argv: Tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    umask: Optional[int] = None
    cgroups: Tuple[str, ...] = ()  # files into which the rank writes "0" to join
    mounts: Tuple[Tuple[str, str, bool], ...] = ()  # source, target, read-only
    session: bool = True  # a session of its own; otherwise only a process group of its own
    limits: Mapping[str, Tuple[int, int]] = field(default_factory=dict)  # {"RLIMIT_NOFILE": (soft, hard)}
    affinity: Tuple[int, ...] = ()  # the cores it may use; none means those of the zygote

    def message(self) -> Message:
        return {"op": "start", **asdict(self)}


def at_import(env: Mapping[str, str]) -> Dict[str, str]:
    """The variables of `env` that act while modules are imported."""
    return {
        name: value
        for name, value in env.items()
        if (name.startswith(_AT_IMPORT) or name in _AT_IMPORT_EXACTLY)
        and not name.startswith(_OF_A_SESSION)
        and not is_set_later(name)
    }


def is_set_later(name: str) -> bool:
    """Whether a rank of a zygote gets its own value of a variable, even if a module has read it before."""
    return name in _LATER


def read_fork_request(message: Message) -> ForkRequest:
    """Reads a start request; a field of the wrong shape is a WireError."""
    try:
        umask = message.get("umask")
        return ForkRequest(
            id=str(message["id"]),
            argv=tuple(str(part) for part in message["argv"]),
            env={str(name): str(value) for name, value in message["env"].items()},
            cwd=str(message["cwd"]),
            umask=None if umask is None else int(umask),
            cgroups=tuple(str(path) for path in message.get("cgroups", ())),
            mounts=tuple(
                (str(source), str(target), bool(ro)) for source, target, ro in message.get("mounts", ())
            ),
            session=bool(message.get("session", True)),
            limits={str(k): (int(soft), int(hard)) for k, (soft, hard) in message.get("limits", {}).items()},
            affinity=tuple(int(core) for core in message.get("affinity", ())),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WireError(f"a start request is malformed: {error!r}") from error


def pack(message: Message) -> bytes:
    """Makes one frame; lone surrogates of undecodable bytes survive the journey."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(body) > _LONGEST:
        raise WireError(f"a message of {len(body)} bytes is longer than {_LONGEST}")
    return _HEAD.pack(len(body)) + body


class Unpacker:
    """Turns received bytes into messages, wherever the bytes were cut."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> List[Message]:
        self._rest += data
        messages = []
        while len(self._rest) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._rest)
            if length > _LONGEST:
                raise WireError(f"a frame of {length} bytes was announced, the longest is {_LONGEST}")
            end = _HEAD.size + length
            if len(self._rest) < end:
                break
            try:
                message = json.loads(bytes(self._rest[_HEAD.size : end]))
            except (ValueError, RecursionError) as error:
                raise WireError(f"a frame is not JSON: {error}") from error
            if not isinstance(message, dict):
                raise WireError("a frame is not a JSON object")
            messages.append(message)
            del self._rest[:end]
        return messages


class Channel:
    """The runner's end: blocking, one frame at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._unpacker = Unpacker()
        self._waiting: List[Message] = []

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        data = pack(message)
        if fds:
            # The descriptors travel with the first byte; a long frame may need several writes.
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
            data = data[self.socket.sendmsg([data], [rights]) :]
        if data:  # to send nothing fails as well, once the receiver has answered and closed
            self.socket.sendall(data)

    def receive(self) -> Optional[Message]:
        """The next message, or None when the zygote is gone; raises TimeoutError as the socket is set to."""
        while not self._waiting:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._waiting = self._unpacker.feed(data)
        return self._waiting.pop(0)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(path: str, timeout: Optional[float] = None) -> Channel:
    """Connects to a zygote; raises OSError when none listens. The timeout holds for each later wait too."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        with _address(path) as address:
            sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return Channel(sock)


def listen(path: str) -> socket.socket:
    """Listens at `path`, replacing in one step whatever a dead zygote left there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fresh = f"{path}.{os.getpid()}"
    before = os.umask(0o177)
    try:
        with _address(fresh) as address:
            sock.bind(address)
        sock.listen(64)
        sock.setblocking(False)
        os.replace(fresh, path)
    except BaseException:
        sock.close()
        raise
    finally:
        os.umask(before)
    return sock


def receive_some(sock: socket.socket) -> Tuple[bytes, List[int]]:
    """Reads what is there, with the file descriptors that came along (the zygote's end)."""
    space = socket.CMSG_SPACE(_MOST_FDS * array.array("i").itemsize)
    data, ancillary, _, _ = sock.recvmsg(65536, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)


@contextlib.contextmanager
def _address(path: str) -> Iterator[str]:
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS or not os.path.isdir("/proc/self/fd"):
        yield path
        return
    # A deep home folder must not forbid warm starts: the folder's descriptor makes a short name of it.
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)
