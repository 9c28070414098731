"""Starts a zygote and talks to it as a runner does: real processes, real sockets."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bireme.runtime
from bireme.runtime import linux, wire

ZYGOTE = str(Path(bireme.runtime.__file__).parent / "start_zygote.py")
SECONDS = 60.0


def wait_until(is_true: Callable[[], bool], what: str) -> None:
    """Waits for a condition of another process, which cannot be awaited in any other way."""
    end = time.monotonic() + SECONDS
    while not is_true():
        assert time.monotonic() < end, f"in {SECONDS:.0f} s it never came true that {what}"
        threading.Event().wait(0.01)


def is_alive(pid: int) -> bool:
    found = linux.process(pid)
    return found is not None and not found.zombie


class Rank:
    """A rank that was asked for, and the ends of its output."""

    def __init__(self, id: str, out: int, err: int) -> None:
        self.id = id
        self.out = os.fdopen(out, "rb")
        self.err = os.fdopen(err, "rb")


class Runner:
    """One connection to a zygote."""

    def __init__(self, path: str) -> None:
        self._channel = wire.connect(path, SECONDS)
        self._count = 0

    def ask(self, op: str, **fields: object) -> Any:
        """Sends a request and returns the answer. Any: the JSON of the protocol."""
        self.tell(op, **fields)
        return self.next()

    def tell(self, op: str, **fields: object) -> None:
        self._channel.send({"op": op, **fields})

    def next(self) -> Any:
        message = self._channel.receive()
        assert message is not None, "the zygote is gone"
        return message

    def order(self, folder: Path, *argv: str, env: dict[str, str] | None = None, **fields: Any) -> Rank:
        """Asks for a rank. Any: further fields of the order."""
        self._count += 1
        out, err = os.pipe(), os.pipe()
        order = wire.ForkRequest(
            id=str(self._count),
            argv=argv,
            env=dict(os.environ) if env is None else env,
            cwd=str(folder),
            **fields,
        )
        null = os.open(os.devnull, os.O_RDONLY)
        self._channel.send(order.message(), (null, out[1], err[1]))
        for fd in (null, out[1], err[1]):
            os.close(fd)
        return Rank(order.id, out[0], err[0])

    def start(self, folder: Path, *argv: str, **fields: Any) -> tuple[Rank, Any]:
        """Asks for a rank and waits until it stands."""
        rank = self.order(folder, *argv, **fields)
        started = self.next()
        assert started["op"] == "started", started
        assert started["id"] == rank.id
        return rank, started

    def finish(self, rank: Rank) -> int:
        """Waits until a rank, the only one at work, has ended; returns its exit code, a signal negated."""
        exited = self.next()
        assert (exited["op"], exited["id"]) == ("exited", rank.id), exited
        return os.waitstatus_to_exitcode(exited["status"])

    def close(self) -> None:
        self._channel.close()


class Zygote:
    """A zygote, started by the test and ended with it."""

    def __init__(self, folder: Path, preload: str, idle: float, env: dict[str, str], memory: int) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = str(folder / "socket")
        words = [sys.executable, ZYGOTE, "--socket", self.path, "--preload", preload, "--idle", str(idle)]
        words += ["--memory", str(memory)]
        self.process = subprocess.Popen(
            words, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
        )

    def connect(self) -> Runner:
        wait_until(lambda: os.path.exists(self.path) or self.process.poll() is not None, "the zygote listens")
        return Runner(self.path)

    def wait(self) -> int:
        """Waits until the zygote has ended by itself."""
        return self.process.wait(SECONDS)

    def complaint(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


@contextlib.contextmanager
def zygote(
    folder: Path,
    preload: str = "json",
    idle: float = SECONDS,
    env: dict[str, str] | None = None,
    memory: int = 0,
) -> Iterator[Zygote]:
    started = Zygote(folder, preload, idle, dict(os.environ) if env is None else env, memory)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait(SECONDS)
        if started.process.stderr is not None:
            started.process.stderr.close()
