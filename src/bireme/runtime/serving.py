"""How does a zygote serve its runners: one loop, one thread, connections in and forks out.

The loop returns twice: in a forked child with the order that it is to carry out, and in the zygote when it is to end.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Tuple

from . import linux, preloading, wire

_TICK = 1.0  # how often the socket's file is looked at
_STALE_AFTER = 1.0  # how long one look at the loaded files is good for
_MOST_UNSENT = 4 * 1024 * 1024  # a runner that reads nothing is given up
_LAST_SWEEP = 10.0  # how long an ending zygote tries to see everything gone


@dataclass(frozen=True)
class Birth:
    """What a child finds when the loop returns in it."""

    order: wire.Order
    fds: List[int]
    setup: int  # tells the zygote how it went, then is closed
    parent: int


@dataclass
class Rank:
    """One child, from its fork until nothing of it is left."""

    order: wire.Order
    pid: int
    start_time: Optional[int]
    setup: Optional[int]
    reaped: bool = False


@dataclass
class Runner:
    """One connection, and what was started on it."""

    socket: socket.socket
    unpacker: wire.Unpacker = field(default_factory=wire.Unpacker)
    fds: List[int] = field(default_factory=list)
    unsent: bytearray = field(default_factory=bytearray)
    ranks: List[Rank] = field(default_factory=list)
    gone: bool = False


Handler = Callable[[int], Optional[Birth]]


class Server:
    """Owns the socket, the children and the clock of a zygote."""

    def __init__(self, path: str, listener: socket.socket, held: preloading.Preloaded, idle: float) -> None:
        self._path = path
        self._listener = listener
        self._inode = os.stat(path).st_ino
        self._held = held
        self._idle = idle
        self._busy_at = time.monotonic()
        self._stale_at = (0.0, False)
        self._runners: List[Runner] = []
        self._live: Dict[int, Tuple[Rank, Runner]] = {}
        self._doomed: List[Rank] = []
        self._swept_for = 0.0
        self._draining = False
        self._ending_since: Optional[float] = None
        # Not epoll: its state would be shared with every child.
        self._selector = selectors.PollSelector()
        self._wake, self._waker = socket.socketpair()

    def serve(self) -> Optional[Birth]:
        """Serves until there is nothing more to serve; in a child, returns what was ordered."""
        self._listen_to_signals()
        self._register(self._listener, self._accept)
        self._register(self._wake, self._on_signal)
        while not self._finished():
            for key, _ in self._selector.select(self._patience()):
                handler: Handler = key.data
                birth = handler(key.fd)
                if birth is not None:
                    return birth
            self._reap()
            self._sweep()
            self._look_around()
        self._close()
        return None

    # ---- connections

    def _accept(self, _: int) -> None:
        try:
            sock, _address = self._listener.accept()
        except OSError:
            return
        if linux.peer_uid(sock) not in (None, os.getuid()):
            sock.close()
            return
        sock.setblocking(False)
        runner = Runner(sock)
        self._runners.append(runner)
        self._register(sock, lambda _: self._on_runner(runner))

    def _on_runner(self, runner: Runner) -> Optional[Birth]:
        self._flush(runner)
        if runner.gone:
            return None
        try:
            data, fds = wire.receive_some(runner.socket)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            data, fds = b"", []
        runner.fds += fds
        if not data:
            self._drop(runner)
            return None
        try:
            for message in runner.unpacker.feed(data):
                birth = self._answer(runner, message)
                if birth is not None:
                    return birth
        except wire.WireError as error:
            self._say(runner, {"op": "error", "error": str(error)})
            self._drop(runner)
        return None

    def _answer(self, runner: Runner, message: wire.Message) -> Optional[Birth]:
        op = message.get("op")
        if op == "start":
            return self._start(runner, message)
        if op == "status":
            self._say(runner, self._status())
        elif op == "signal":
            self._signal(runner, message)
        elif op == "shutdown":
            self._say(runner, {"op": "stopping"})
            self._end()
        else:
            self._say(runner, {"op": "error", "error": "there is no request %r" % (op,)})
        return None

    def _say(self, runner: Runner, message: wire.Message) -> None:
        if not runner.gone:
            runner.unsent += wire.pack(message)
            self._flush(runner)

    def _flush(self, runner: Runner) -> None:
        try:
            while runner.unsent:
                del runner.unsent[: runner.socket.send(runner.unsent)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            runner.unsent.clear()
        if len(runner.unsent) > _MOST_UNSENT:
            self._drop(runner)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if runner.unsent else 0)
        key = self._selector.get_key(runner.socket)
        if key.events != events:
            self._selector.modify(runner.socket, events, key.data)

    def _drop(self, runner: Runner) -> None:
        """Forgets a runner and dooms everything that was started for it."""
        if runner.gone:
            return
        runner.gone = True
        self._runners.remove(runner)
        self._selector.unregister(runner.socket)
        runner.socket.close()
        for fd in runner.fds:
            os.close(fd)
        self._doomed += runner.ranks
        self._swept_for = 0.0

    # ---- ranks

    def _start(self, runner: Runner, message: wire.Message) -> Optional[Birth]:
        order = wire.read_order(message)
        fds, runner.fds = runner.fds[:3], runner.fds[3:]
        refusal = self._refusal(order, fds)
        if refusal is None:
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            # Blocked until the child has handlers of its own: no signal may find it half made.
            mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
            parent = os.getpid()
            try:
                pid = os.fork()
            except OSError as error:
                pid, refusal = -1, "cannot fork: %s" % error
            if pid == 0:
                os.close(ours)
                self._forget(runner)
                return Birth(order, fds, theirs, parent)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(theirs)
            if pid > 0:
                self._watch_over(Rank(order, pid, linux.start_time(pid), ours), runner)
            else:
                os.close(ours)
        for fd in fds:
            os.close(fd)
        if refusal is not None:
            stale = self._stale_at[1]
            self._say(runner, {"op": "refused", "id": order.id, "error": refusal, "stale": stale})
        return None

    def _refusal(self, order: wire.Order, fds: List[int]) -> Optional[str]:
        if len(fds) != 3:
            return "a start needs three file descriptors, %d came" % len(fds)
        if not order.argv:
            return "a start needs a target"
        if any("\0" in text for text in (*order.argv, *order.env, *order.env.values(), order.cwd)):
            return "a zero byte in the arguments or the environment"
        if self._ending_since is not None:
            return "the zygote is ending"
        if self._is_stale():
            return "files of loaded modules have changed"
        return None

    def _watch_over(self, rank: Rank, runner: Runner) -> None:
        self._live[rank.pid] = (rank, runner)
        runner.ranks.append(rank)
        assert rank.setup is not None
        self._register(rank.setup, lambda _: self._on_setup(rank, runner))

    def _on_setup(self, rank: Rank, runner: Runner) -> None:
        """The child stands on its own, or has failed to, or is dead."""
        if rank.setup is None:
            return
        try:
            content = os.read(rank.setup, 65536)
        except BlockingIOError:
            return
        self._selector.unregister(rank.setup)
        os.close(rank.setup)
        rank.setup = None
        result = json.loads(content) if content else {"missing": [], "warm": True, "why": None}
        if "error" in result:
            runner.ranks.remove(rank)
            reply = {"op": "refused", "id": rank.order.id, "stale": False, **result}
        else:
            head = {"op": "started", "id": rank.order.id, "pid": rank.pid, "start_time": rank.start_time}
            reply = {**head, **result}
        self._say(runner, reply)

    def _reap(self) -> None:
        while True:
            try:
                # Any child: orphans of ranks have become ours too.
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self._live:
                continue
            rank, runner = self._live.pop(pid)
            self._on_setup(rank, runner)
            rank.reaped = True
            if rank in runner.ranks:
                used = {name: getattr(usage, name) for name in ("ru_utime", "ru_stime", "ru_maxrss")}
                self._say(
                    runner,
                    {"op": "exited", "id": rank.order.id, "pid": pid, "status": status, "rusage": used},
                )

    def _signal(self, runner: Runner, message: wire.Message) -> None:
        for rank in runner.ranks:
            # Until it is reaped, which only this process can do, the number belongs to nobody else.
            if rank.order.id == message.get("id") and not rank.reaped:
                try:
                    os.killpg(rank.pid, int(message["signal"]))
                except (OSError, KeyError, TypeError, ValueError) as error:
                    self._say(runner, {"op": "error", "id": rank.order.id, "error": str(error)})

    def _sweep(self) -> None:
        """Kills what is left of doomed ranks, until nothing is."""
        if not self._doomed:
            return
        family = linux.family(os.getpid())
        remaining = []
        for rank in self._doomed:
            victims = [pid for pid in family if self._belongs(pid, rank, family)]
            for pid in victims:
                _kill(pid)
            if not rank.reaped:
                _kill(rank.pid)
            if victims or not rank.reaped:
                remaining.append(rank)
        self._doomed = remaining
        self._swept_for += 1

    def _belongs(self, pid: int, rank: Rank, family: Dict[int, linux.Process]) -> bool:
        """Whether a descendant of ours comes from this rank: by descent, by session, or by its mark."""
        top = pid
        while family[top].parent in family:
            if top == rank.pid and not rank.reaped:
                return True
            top = family[top].parent
        if top in self._live:
            return top == rank.pid and not rank.reaped
        # An orphan that we have adopted: the rank it came from is dead.
        if family[pid].session == rank.pid:
            return True
        mark = rank.order.env.get(wire.MARK)
        return bool(mark) and linux.variable_of(pid, wire.MARK) == mark

    def _forget(self, _: Runner) -> None:
        """In a child: closes everything of the zygote, object by object, so that none closes a reused number."""
        self._selector.close()
        for sock in (self._listener, self._wake, self._waker, *(runner.socket for runner in self._runners)):
            sock.close()
        for runner in self._runners:
            for fd in runner.fds:
                os.close(fd)
        for rank, _runner in self._live.values():
            if rank.setup is not None:
                os.close(rank.setup)

    # ---- the zygote's own life

    def _status(self) -> wire.Message:
        held = self._held
        return {
            "op": "status",
            "pid": os.getpid(),
            "python": sys.executable,
            "preloaded": list(held.names),
            "failed": [{"name": name, "error": error} for name, error in held.failed.items()],
            "versions": dict(held.versions),
            "ready": True,
            "children": len(self._live),
            "fingerprint": held.fingerprint,
            "stale": self._is_stale(),
        }

    def _is_stale(self) -> bool:
        now = time.monotonic()
        if now - self._stale_at[0] > _STALE_AFTER or self._stale_at[0] == 0.0:
            self._stale_at = (now, self._held.stale)
        return self._stale_at[1]

    def _listen_to_signals(self) -> None:
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, _do_nothing)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, _: int) -> None:
        try:
            if signal.SIGTERM in self._wake.recv(4096):
                self._end()
        except BlockingIOError:
            pass

    def _end(self) -> None:
        if self._ending_since is None:
            self._ending_since = time.monotonic()
            self._stop_listening()

    def _look_around(self) -> None:
        now = time.monotonic()
        if self._runners or self._live or self._doomed:
            self._busy_at = now
        if self._ending_since is not None:
            for runner in list(self._runners):
                self._drop(runner)
        elif now - self._busy_at >= self._idle:
            self._end()
        elif not self._draining and not self._socket_is_ours():
            # Nobody new can reach us; those who have are served to their end.
            self._draining = True
            self._selector.unregister(self._listener)

    def _socket_is_ours(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _finished(self) -> bool:
        if self._draining and not self._runners and not self._live and not self._doomed:
            return True
        if self._ending_since is None:
            return False
        left = self._runners or self._live or self._doomed
        return not left or time.monotonic() - self._ending_since > _LAST_SWEEP

    def _patience(self) -> float:
        if self._ending_since is not None or self._doomed:
            return min(0.005 * 2 ** min(self._swept_for, 7), 0.5)
        if self._runners or self._live:
            return _TICK
        return max(0.0, min(_TICK, self._busy_at + self._idle - time.monotonic()))

    def _stop_listening(self) -> None:
        if self._socket_is_ours():
            os.unlink(self._path)
        if not self._draining:
            self._draining = True
            self._selector.unregister(self._listener)
        self._listener.close()

    def _close(self) -> None:
        self._stop_listening()
        self._selector.close()

    def _register(self, source: object, handler: Handler) -> None:
        self._selector.register(source, selectors.EVENT_READ, handler)  # type: ignore[arg-type]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _do_nothing(*_: object) -> None:
    """Only there because a signal without a handler does not wake the loop."""
