"""Runs a zygote from its start to its end, and its children from their fork to theirs."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import stat
import sys
import time
from typing import FrozenSet, List, Optional

from .. import linux, wire
from ..rank import run_target
from . import forked_child, preload, thread_pools, zygote_server, zygote_state

# The mark of a run is written over this, in place, by each child: see linux.show_variable.
_ROOM_FOR_MARK = "zygote" + " " * 250


def main(args: List[str], started: FrozenSet[str]) -> int:
    """Serves until idle. In a child, runs the rank instead and returns when the script has ended."""
    parser = argparse.ArgumentParser(prog="zygote", description="Forks ranks that have their modules loaded.")
    parser.add_argument("--socket", required=True, type=os.path.abspath)
    parser.add_argument("--preload", default="", type=lambda text: [name for name in text.split(",") if name])
    parser.add_argument("--idle", default=600.0, type=float)
    parser.add_argument("--memory", default=0, type=int)
    options = parser.parse_args(args)
    _make_room_for_mark(args)
    lock = _lock(options.socket)
    if lock is None:
        return 0
    # After the lock: a zygote that is not needed says so to whatever started it.
    _detach()
    zygote_state.write(options.socket + ".state", ready=False)
    held = _preload(options, started)
    if held is None:
        return 3
    pools = thread_pools.find()
    linux.adopt_orphans()
    with contextlib.suppress(FileNotFoundError):
        os.unlink(options.socket + ".refused")
    # Before the socket is there: a runner that connects must know already which ranks can be served.
    with open(options.socket + ".reads", "w", encoding="utf-8") as file:
        json.dump(held.reads.content(held.env), file)
    server = zygote_server.Server(options.socket, lock, wire.listen(options.socket), held, options.idle)
    zygote_state.write(options.socket + ".state", ready=True, roots=held.roots, modules=held.modules)
    birth = server.serve()
    if birth is None:
        os.close(lock)
    else:
        _be_born(birth, held, pools)
        run_target.run(birth.order.argv, held.started, held.modules)
    return 0


def _make_room_for_mark(args: List[str]) -> None:
    """Starts over once with a long variable in its environment: others see only what it was started with."""
    if not linux.AVAILABLE or len(linux.variable_of(os.getpid(), wire.MARK) or "") >= len(_ROOM_FOR_MARK):
        return
    env = {**os.environ, wire.MARK: _ROOM_FOR_MARK}
    if preload.coerced_locale() is not None:
        del env["LC_CTYPE"]
    zygote = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "start_zygote.py")
    os.execve(sys.executable, [sys.executable, zygote, *args], env)


def _lock(path: str) -> Optional[int]:
    """Takes the right to serve at `path`; None if another has it. The folder must be the user's alone."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    info = os.stat(folder)
    if info.st_uid != os.getuid() or stat.S_IMODE(info.st_mode) & 0o077:
        _complain(
            f"{folder} must be yours alone (chmod 700): any process that connects there runs programs as you"
        )
        sys.exit(2)
    lock = os.open(path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _detach() -> None:
    """Belongs to no terminal, holds no folder, and keeps the numbers of the standard streams taken."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    if os.getsid(0) != os.getpid() and os.getpgid(0) != os.getpid():
        os.setsid()
    os.chdir("/")


def _preload(options: argparse.Namespace, started: FrozenSet[str]) -> Optional[preload.Preloaded]:
    """Imports the modules; None if what they are cannot be served, which is then told."""
    loud = linux.work_quietly()
    try:
        held = preload.preload(options.preload, started)
    except preload.Unforkable as problem:
        _complain(f"{problem.module}: {problem.reason}, so forking would be unsafe; nothing is served")
        _refuse(options, {"module": problem.module, "reason": problem.reason})
        return None
    finally:
        loud()
    memory = zygote_state.memory(os.getpid())
    if options.memory and memory > options.memory:
        _complain(
            f"it holds {memory} bytes, and warm interpreters may hold {options.memory}; nothing is served"
        )
        _refuse(options, {"memory": memory, "reason": "it holds too much memory"})
        return None
    return held


def _refuse(options: argparse.Namespace, content: wire.Message) -> None:
    """Leaves a note, so that no other zygote is started in vain."""
    with open(options.socket + ".refused", "w", encoding="utf-8") as file:
        json.dump({**content, "time": time.time()}, file)


def _be_born(birth: zygote_server.Birth, held: preload.Preloaded, pools: thread_pools.Pools) -> None:
    order = birth.order
    try:
        missing = forked_child.stand_alone(order, birth.fds, birth.parent)
        why = forked_child.why_cold(order, held)
        if why is None:
            forked_child.freshen(order, held, pools)
    except BaseException as error:
        _tell(birth.setup, {"error": f"{type(error).__name__}: {error}"})
        os._exit(71)
    _tell(birth.setup, {"missing": missing, "warm": why is None, "why": why})
    if why is not None:
        forked_child.start_cold(order)


def _tell(setup: int, content: wire.Message) -> None:
    try:
        with open(setup, "wb") as pipe:
            pipe.write(json.dumps(content).encode("ascii"))
    except BrokenPipeError:
        # The zygote is gone, and so shall we be: by the parent-death signal.
        os.kill(os.getpid(), signal.SIGKILL)


def _complain(text: str) -> None:
    print("bireme zygote: " + text, file=sys.stderr, flush=True)
