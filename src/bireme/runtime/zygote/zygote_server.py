"""Serves the runners of a zygote: one loop, one thread, connections in and forks out.

The loop returns twice: in a forked child with the order that it carries out, and in the zygote at its end.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Tuple

from .. import linux, wire
from . import preload, runner_connection, spare_children, zygote_state
from .runner_connection import Rank, Runner
from .spare_children import Spare

_TICK = 1.0  # how often the socket's file is looked at
_LOOK_AGAIN = 1.0  # how long one look at the loaded files is good for
_LAST_SWEEP = 10.0  # how long an ending zygote tries to see everything gone
_REFILL_AFTER = 0.1  # how long it is idle before it forks spares: what ends just now needs the cores


@dataclass(frozen=True)
class Birth:
    """What a child finds when the loop returns in it."""

    order: wire.ForkRequest
    fds: List[int]
    setup: int  # tells the zygote how it went, then is closed
    parent: int


Handler = Callable[[], Optional[Birth]]


class Server:
    """Owns the socket, the children and the clock of a zygote."""

    def __init__(
        self, path: str, lock: int, listener: socket.socket, held: preload.Preloaded, idle: float
    ) -> None:
        self._path = path
        self._lock = lock
        self._listener = listener
        self._inode = os.stat(path).st_ino
        self._held = held
        self._idle = idle
        self._busy_at = time.monotonic()
        self._looked: Optional[Tuple[float, Optional[str]]] = None  # when, and the file that had changed
        self._runners: List[Runner] = []
        self._live: Dict[int, Tuple[Rank, Runner]] = {}
        self._doomed: List[Rank] = []
        self._spares: List[Spare] = []
        self._wanted = 1  # how many spares to have: as many ranks as the last order made alive at once
        self._sweeps = 0
        self._listening = True
        self._ending_since: Optional[float] = None
        # Not epoll: its state would be shared with every child.
        self._selector = selectors.PollSelector()
        self._wake, self._waker = socket.socketpair()

    def serve(self) -> Optional[Birth]:
        """Serves until there is nothing more to serve; in a child, returns what was ordered."""
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            # It does nothing, but a signal without a handler does not wake the loop.
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._register(self._listener.fileno(), self._accept)
        self._register(self._wake.fileno(), self._on_signal)
        while not self._is_finished():
            for key, _ in self._selector.select(self._patience()):
                handler: Handler = key.data
                birth = handler()
                if birth is not None:
                    return birth
            # After the events: an exit is told to the runner whose request came before it.
            self._reap()
            if self._doomed:
                # After reaping, which tells a dead rank from one that must be killed.
                self._doomed = runner_connection.kill_remains(self._doomed, self._live)
                self._sweeps += 1
            now = time.monotonic()
            if self._is_busy():
                self._busy_at = now
            if self._ending_since is not None:
                for runner in list(self._runners):
                    self._drop(runner)
            elif now - self._busy_at >= self._idle:
                self._end()
            elif not self._socket_is_ours():
                # No new runner can reach us; those that have are served to their end.
                self._stop_listening()
            elif now >= self._refill_at():
                birth = self._refill()
                if birth is not None:
                    return birth
        self._stop_listening()
        self._listener.close()
        for spare in self._spares:
            spare.end()
        return None

    # ---- connections

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        if linux.peer_uid(sock) not in (None, os.getuid()):
            sock.close()
            return
        sock.setblocking(False)
        runner = Runner(sock)
        self._runners.append(runner)
        self._register(sock.fileno(), lambda: self._on_runner(runner))

    def _on_runner(self, runner: Runner) -> Optional[Birth]:
        # An earlier event of the same round may have ended it.
        if runner.gone:
            return None
        runner.flush()
        try:
            messages = runner.read()
            for message in messages or ():
                birth = self._answer(runner, message)
                if birth is not None:
                    return birth
        except wire.WireError as error:
            self._say(runner, {"op": "error", "error": str(error)})
            messages = None
        if messages is None:
            self._drop(runner)
        else:
            self._watch_for_room(runner)
        return None

    def _answer(self, runner: Runner, message: wire.Message) -> Optional[Birth]:
        op = message.get("op")
        if op == "start":
            return self._start(runner, message)
        if op == "status":
            held = self._held
            status = {
                "op": "status",
                "pid": os.getpid(),
                "python": sys.executable,
                "preloaded": list(held.names),
                "packages": sorted({name.partition(".")[0] for name in held.modules}),
                "failed": [{"name": name, "error": error} for name, error in held.failed.items()],
                "versions": dict(held.versions),
                "ready": True,
                "children": len(self._live),
                "fingerprint": held.fingerprint,
                "stale": self._changed() is not None,
            }
            self._say(runner, status)
        elif op == "signal":
            for rank in runner.ranks:
                # Until it is reaped, which only this process can do, no other process gets its number.
                if rank.order.id == message.get("id") and not rank.reaped:
                    try:
                        os.killpg(rank.pid, int(message["signal"]))
                    except (OSError, KeyError, TypeError, ValueError, OverflowError) as error:
                        self._say(runner, {"op": "error", "id": rank.order.id, "error": str(error)})
        elif op == "shutdown":
            self._say(runner, {"op": "stopping"})
            self._end()
        elif op == "retire":
            # It ends to make room for others, unless it serves a runner besides the one that asks.
            is_free = self._runners == [runner] and not self._live and not self._doomed
            self._say(runner, {"op": "stopping" if is_free else "busy"})
            if is_free:
                self._end()
        else:
            self._say(runner, {"op": "error", "error": f"there is no request {op!r}"})
        return None

    def _say(self, runner: Runner, message: wire.Message) -> None:
        if not runner.gone:
            runner.say(message)
            self._watch_for_room(runner)

    def _watch_for_room(self, runner: Runner) -> None:
        if runner.gone:
            return
        if runner.is_stuck:
            self._drop(runner)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if runner.waits_to_send else 0)
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
        runner.close()
        self._doomed += runner.ranks
        self._sweeps = 0

    # ---- ranks

    def _start(self, runner: Runner, message: wire.Message) -> Optional[Birth]:
        order = wire.read_fork_request(message)
        fds = runner.take_fds(3)
        changed = self._changed()
        refusal = None
        if len(fds) != 3:
            refusal = f"a start needs three file descriptors, {len(fds)} came"
        elif not order.argv:
            refusal = "a start needs a target"
        elif any("\0" in text for text in (*order.argv, *order.env, *order.env.values(), order.cwd)):
            refusal = "a zero byte in the arguments or the environment"
        elif self._ending_since is not None:
            refusal = "the zygote is ending"
        elif changed is not None:
            refusal = f"{changed} has changed since it was loaded"
        if refusal is None:
            alive = len(self._live)
            birth = self._fork(runner, order, fds)
            if birth is not None:
                return birth
            if len(self._live) == alive:
                refusal = "the kernel allows no more processes"
        for fd in fds:
            os.close(fd)
        if refusal is not None:
            stale = self._changed() is not None
            self._say(runner, {"op": "refused", "id": order.id, "error": refusal, "stale": stale})
        return None

    def _fork(self, runner: Runner, order: wire.ForkRequest, fds: List[int]) -> Optional[Birth]:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        parent, pid = os.getpid(), 0
        while self._spares and not pid:
            spare = self._spares.pop(0)
            pid = spare.pid if spare.accept(order, (*fds, theirs)) else 0
        if not pid:
            pid = self._child()
            if pid == 0:
                os.close(ours)
                return Birth(order, fds, theirs, parent)
        os.close(theirs)
        if pid < 0:
            os.close(ours)
            return None
        rank = Rank(order, pid, linux.start_time(pid), ours)
        self._live[pid] = (rank, runner)
        self._wanted = min(len(self._live), os.cpu_count() or 1)
        runner.ranks.append(rank)
        self._register(ours, lambda: self._on_setup(rank, runner))
        zygote_state.touch(self._path + ".state")
        return None

    def _child(self) -> int:
        """Forks; in the child, lets go of what is the zygote's. Below zero: the kernel allows no child."""
        # Blocked until the child has handlers of its own: no signal may find it half made.
        mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return pid
        # The right to serve ends with the zygote, however long its children live.
        os.close(self._lock)
        # What is the zygote's is closed object by object: left to the collector, one of them would
        # later close a number that the script has in use by then.
        for sock in (self._listener, self._wake, self._waker, *(spare.socket for spare in self._spares)):
            sock.close()
        for other in self._runners:
            other.close()
        for rank, _ in self._live.values():
            if rank.setup is not None:
                os.close(rank.setup)
        return 0

    def _refill_at(self) -> float:
        """When the next spare is to be forked: never beside ranks, which need the cores and the memory."""
        is_due = len(self._spares) < self._wanted and not self._is_busy()
        return self._busy_at + _REFILL_AFTER if is_due else float("inf")

    def _refill(self) -> Optional[Birth]:
        """Forks a spare; in the spare, returns what it was ordered to be."""
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        pid = self._child()
        if pid == 0:
            ours.close()
            linux.die_with_parent(parent)
            # A list of processes, or a count of zygotes by their socket, must not take it for another zygote.
            linux.show_command([sys.executable, "spare of zygote", str(parent)])
            order, fds = spare_children.await_order(theirs)
            return Birth(order, fds[:3], fds[3], parent)
        theirs.close()
        if pid > 0:
            self._spares.append(Spare(pid, ours))
        else:
            ours.close()
            self._wanted = 0
        return None

    def _on_setup(self, rank: Rank, runner: Runner) -> None:
        """The child stands on its own, or has failed to, or is dead."""
        if rank.setup is None:
            return
        try:
            while piece := os.read(rank.setup, 65536):
                rank.told += piece
        except BlockingIOError:
            return  # it has more to tell
        self._selector.unregister(rank.setup)
        os.close(rank.setup)
        rank.setup = None
        try:
            result = json.loads(rank.told)
        except ValueError:
            result = None
        if not isinstance(result, dict):
            # It was killed meanwhile, and may have told half of it, or nothing.
            result = {"missing": [], "warm": True, "why": None}
        if "error" in result:
            runner.ranks.remove(rank)
            self._say(runner, {"op": "refused", "id": rank.order.id, "stale": False, **result})
            return
        head = {"op": "started", "id": rank.order.id, "pid": rank.pid, "start_time": rank.start_time}
        self._say(runner, {**head, **result})

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
                for spare in [spare for spare in self._spares if spare.pid == pid]:
                    # Killed from outside, or for its memory: there is none until ranks are asked for again.
                    spare.socket.close()
                    self._spares.remove(spare)
                    self._wanted = 0
                continue
            rank, runner = self._live.pop(pid)
            zygote_state.touch(self._path + ".state")
            self._on_setup(rank, runner)
            rank.reaped = True
            if rank in runner.ranks:
                used = {name: getattr(usage, "ru_" + name) for name in ("utime", "stime", "maxrss")}
                head = {"op": "exited", "id": rank.order.id, "pid": pid}
                self._say(runner, {**head, "status": status, "rusage": used})

    # ---- the zygote's own life

    def _changed(self) -> Optional[str]:
        now = time.monotonic()
        if self._looked is None or now - self._looked[0] > _LOOK_AGAIN:
            self._looked = (now, self._held.changed())
        return self._looked[1]

    def _on_signal(self) -> None:
        with contextlib.suppress(BlockingIOError):
            if signal.SIGTERM in self._wake.recv(4096):
                self._end()

    def _end(self) -> None:
        if self._ending_since is None:
            self._ending_since = time.monotonic()
            self._stop_listening()

    def _stop_listening(self) -> None:
        if self._listening:
            self._listening = False
            self._selector.unregister(self._listener)
            if self._socket_is_ours():
                os.unlink(self._path)

    def _socket_is_ours(self) -> bool:
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    def _is_busy(self) -> bool:
        return bool(self._runners or self._live or self._doomed)

    def _is_finished(self) -> bool:
        if self._listening or (self._ending_since is None and self._is_busy()):
            return False
        return not self._is_busy() or time.monotonic() - (self._ending_since or 0.0) > _LAST_SWEEP

    def _patience(self) -> float:
        if self._ending_since is not None or self._doomed:
            return min(0.005 * (1 << min(self._sweeps, 7)), 0.5)
        if self._is_busy():
            return _TICK
        due = min(self._busy_at + self._idle, self._refill_at())
        return max(0.0, min(_TICK, due - time.monotonic()))

    def _register(self, fd: int, handler: Handler) -> None:
        self._selector.register(fd, selectors.EVENT_READ, handler)
