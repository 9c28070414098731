"""Turns a fork of the zygote into a rank that no script can tell from a fresh interpreter.

Where that cannot be done, `why_cold` says why, and the rank becomes a fresh interpreter in place.
"""

from __future__ import annotations

import functools
import io
import os
import resource
import signal
import sys
import time
from typing import Any, List, NoReturn, Optional

from .. import linux, wire
from ..rank import run_target
from . import preload, thread_pools

# Python ignores these from its start; every other signal is at its default.
_IGNORED = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}

_GROUP_MODULES = ("torch.distributed.distributed_c10d", "torch.distributed")
_GROUP_EXIT = "destroy_process_group"
_GROUP_PAUSE = 0.15
"""Seconds; a thread that can run needs far less."""


def stand_alone(order: wire.ForkRequest, fds: List[int], parent: int) -> List[str]:
    """Leaves the zygote: parent, group, streams, limits, mounts, folder. Returns what was not possible.

    Raises OSError if the working directory cannot be entered or a mount is not possible. Signals are blocked
    meanwhile by the caller.
    """
    linux.die_with_parent(parent)
    if order.session:
        os.setsid()
    else:
        os.setpgid(0, 0)
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
    for fd in fds:
        if fd > 2:
            os.close(fd)
    missing = []
    for name, limits in order.limits.items():
        try:
            resource.setrlimit(getattr(resource, name), limits)
        except (AttributeError, OSError, ValueError):
            missing.append("limit " + name)
    if order.affinity and hasattr(os, "sched_setaffinity"):
        try:
            os.sched_setaffinity(0, order.affinity)
        except OSError:
            missing.append("affinity")
    missing += ["cgroup " + path for path in linux.join_cgroups(order.cgroups)]
    unmounted = linux.mount_privately(order.mounts)
    if unmounted:
        raise OSError(f"cannot mount {', '.join(unmounted)}")
    # A new user namespace may have cleared it.
    linux.die_with_parent(parent)
    if order.umask is not None:
        os.umask(order.umask)
    os.chdir(order.cwd)
    linux.show_variable(wire.MARK, order.env.get(wire.MARK, ""))
    linux.show_command([sys.executable, *order.argv])
    return missing


def why_cold(order: wire.ForkRequest, held: preload.Preloaded) -> Optional[str]:
    """Why the modules that are loaded would not be those of a fresh `python`; None if they would."""
    ours, theirs = wire.at_import(held.env), wire.at_import(order.env)
    differ = {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}
    differ.update(held.reads.differing(held.env, order.env))
    if differ:
        return f"{', '.join(sorted(differ))} differs from the zygote's"
    if any(not os.path.isabs(entry) for entry in order.env.get("PYTHONPATH", "/").split(os.pathsep)):
        return "PYTHONPATH has a relative entry"
    module = order.argv[1] if order.argv[:1] == ("-m",) and len(order.argv) > 1 else None
    if module in held.modules:
        return f"{module} is loaded already"
    if module is None and run_target.is_importable(order.argv[0]) and not os.path.isdir(order.argv[0]):
        return f"{order.argv[0]} is an archive, which may hide a module that is loaded"
    for _, target, _ in order.mounts:
        if any(file[0].startswith(target.rstrip("/") + "/") for file in held.files):
            return f"the mount {target} hides a module that is loaded"
    folder = os.getcwd()  # what a fresh `python` would search first
    if module is None:
        path = os.path.realpath(order.argv[0])
        folder = path if os.path.isdir(path) else os.path.dirname(path)
    shadowing = _shadowing(folder, held)
    return f"{shadowing} hides a module that is loaded" if shadowing else None


def start_cold(order: wire.ForkRequest) -> NoReturn:
    """Becomes a fresh interpreter that runs the same rank."""
    _plain_signals()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    rank = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "start_rank.py")
    os.execve(sys.executable, [sys.executable, rank, *order.argv], dict(order.env))


def freshen(order: wire.ForkRequest, held: preload.Preloaded, pools: thread_pools.Pools) -> None:
    """Makes the interpreter as it would be after a start with this order's environment."""
    env = dict(order.env)
    if held.coerced is not None:
        env["LC_CTYPE"] = held.coerced
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    _plain_signals()
    _open_streams(held.streams, unbuffered=bool(env.get("PYTHONUNBUFFERED")))
    # What modules remember of the process in which they were imported. `random` renews itself.
    processes: Any = sys.modules.get("multiprocessing.process")  # Any: private names of modules
    if processes is not None:
        processes.ORIGINAL_DIR = os.path.abspath(os.getcwd())
        processes.current_process().authkey = os.urandom(32)
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        # Every fresh process seeds it from the system. Left alone, all ranks would draw the same numbers.
        torch.default_generator.seed()
    thread_pools.resize(pools, env)
    retell_ranks()
    pause_before_group_exit()
    # Last: a signal that came meanwhile finds the handlers that a fresh process has.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def retell_ranks() -> None:
    """Tells the modules of `preload.RETOLD` their rank, as they would have found it out themselves."""
    for name in preload.RETOLD:
        module: Any = sys.modules.get(name)  # Any: a module of a third party
        if module is None:
            continue
        try:
            if hasattr(module, "_get_rank"):
                module.rank_zero_only.rank = module._get_rank() or 0
            else:
                module.rank_zero_only.rank = int(os.environ.get("LOCAL_RANK", 0))
        except Exception:
            # Another version of it, which keeps its rank elsewhere; it acts as rank 0 until it is set up.
            continue


def pause_before_group_exit() -> None:
    """Has `destroy_process_group` of a loaded torch give the interpreter's lock away for a moment first.

    A thread of Gloo drops its last references to tensors after a collective has ended, and needs the lock for
    it. When the last owner of the group goes, torch waits for that thread and holds the lock: if both happen
    within milliseconds, neither ends. A fresh interpreter is hardly ever that fast; a forked rank is.
    """
    loaded = [sys.modules[name] for name in _GROUP_MODULES if name in sys.modules]
    plain: Any = getattr(loaded[0], _GROUP_EXIT, None) if loaded else None  # Any: a function of torch
    if plain is None:
        return

    @functools.wraps(plain)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        time.sleep(_GROUP_PAUSE)
        return plain(*args, **kwargs)

    for module in loaded:
        if getattr(module, _GROUP_EXIT, None) is plain:
            setattr(module, _GROUP_EXIT, destroy_process_group)


def _shadowing(folder: str, held: preload.Preloaded) -> Optional[str]:
    """An entry of the script's folder that `import` would find before a module that is loaded already."""
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        top = name.partition(".")[0]
        # The interpreter itself had loaded these before any script; nothing hides them.
        if top not in held.modules or top in held.started or top in sys.builtin_module_names:
            continue
        path = os.path.join(folder, name)
        module_file = getattr(sys.modules.get(top), "__file__", None) or ""
        if os.path.dirname(module_file) == folder or os.path.dirname(os.path.dirname(module_file)) == folder:
            continue
        if name.endswith((".py", ".pyc", ".so")) or os.path.exists(os.path.join(path, "__init__.py")):
            return path
    return None


def _plain_signals() -> None:
    signal.set_wakeup_fd(-1)
    # Handlers that a library has set stay, as they would after its import in a fresh process.
    for number in signal.valid_signals():
        if number in (signal.SIGKILL, signal.SIGSTOP) or number in _IGNORED:
            continue
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _open_streams(streams: preload.Streams, unbuffered: bool) -> None:
    before = (sys.stdout, sys.stderr)
    sys.stdin = sys.__stdin__ = _stream(0, "r", streams.encoding, streams.errors, unbuffered)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", streams.encoding, streams.errors, unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", streams.encoding, "backslashreplace", unbuffered)  # type: ignore[misc]
    logging: Any = sys.modules.get("logging")  # Any: its list of handlers is private
    for reference in getattr(logging, "_handlerList", ()):
        handler = reference()
        if getattr(handler, "stream", None) in before and handler.stream is not None:
            handler.stream = sys.stdout if handler.stream is before[0] else sys.stderr


def _stream(fd: int, mode: str, encoding: str, errors: str, unbuffered: bool) -> io.TextIOWrapper:
    """Opens a standard stream as the interpreter does when it starts (create_stdio)."""
    # Standard input is buffered in any case: text is read from it by pieces.
    is_raw = unbuffered and fd != 0
    buffer: Any = open(fd, mode + "b", 0 if is_raw else -1, closefd=False)  # noqa: SIM115 Any: three classes
    raw = buffer if is_raw else buffer.raw
    raw.name = ("<stdin>", "<stdout>", "<stderr>")[fd]
    text = io.TextIOWrapper(
        buffer,
        encoding,
        errors,
        newline="\n",
        line_buffering=not unbuffered and (fd == 2 or raw.isatty()),
        write_through=unbuffered,
    )
    text.mode = mode  # type: ignore[misc]
    return text
