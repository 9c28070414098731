"""Offers what only Linux can do, with an answer for systems where it cannot be done.

Parent-death signals, adoption of orphans, control groups, private mounts, the process table, names and marks
of a process, and quiet background work. Nothing here raises for lack of a right or of a feature: it answers
False, None, an empty value, or the list of what was not possible.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import stat
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

AVAILABLE = sys.platform.startswith("linux")

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
# What a mount inside a user namespace may not lose when it becomes read-only: nosuid, nodev, noexec.
_KEPT = 0x2 | 0x4 | 0x8
# A folder with more entries than this is not rebuilt to make room for a mount point.
_MOST_ENTRIES = 500


def die_with_parent(parent: int) -> bool:
    """Has the kernel kill this process when `parent` ends, and ends now if that has happened already."""
    done = AVAILABLE and _libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return bool(done)


def adopt_orphans() -> bool:
    """Makes this process the parent of its descendants whose own parent has ended."""
    return bool(AVAILABLE and _libc().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def threads() -> Optional[int]:
    """How many threads this process has, native ones included; None where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def peer_uid(sock: socket.socket) -> Optional[int]:
    """The user at the other end of a Unix socket."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
    except OSError:
        return None


def join_cgroups(procs: Sequence[str]) -> List[str]:
    """Moves this process into control groups; returns the files that could not be written."""
    return [path for path in procs if not _write(path, "0")]


@dataclass(frozen=True)
class ProcessEntry:
    """One line of the process table."""

    pid: int
    parent: int
    session: int
    started: int
    zombie: bool


def process(pid: int) -> Optional[ProcessEntry]:
    """What /proc says of a process; None when there is none."""
    fields = _stat_fields(pid)
    if len(fields) < 20:
        return None
    return ProcessEntry(pid, int(fields[1]), int(fields[3]), int(fields[19]), fields[0] in (b"Z", b"X"))


def start_time(pid: int) -> Optional[int]:
    """When a process started, in clock ticks since boot: with the pid, its identity."""
    found = process(pid)
    return found.started if found else None


def family(ancestor: int) -> Dict[int, ProcessEntry]:
    """Every living descendant of a process."""
    try:
        table = [process(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return {}
    children: Dict[int, List[ProcessEntry]] = {}
    for entry in table:
        if entry is not None:
            children.setdefault(entry.parent, []).append(entry)
    found: Dict[int, ProcessEntry] = {}
    todo = [ancestor]
    while todo:
        for child in children.get(todo.pop(), []):
            if child.pid not in found:
                found[child.pid] = child
                todo.append(child.pid)
    return {pid: entry for pid, entry in found.items() if not entry.zombie}


def variable_of(pid: int, name: str) -> Optional[str]:
    """A variable of the environment that a process shows to others."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            content = file.read()
    except OSError:
        return None
    prefix = name.encode() + b"="
    for entry in content.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def loaded_libraries() -> Set[str]:
    """The files of the native libraries in this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            return {"/" + line.rstrip("\n").partition("/")[2] for line in file if "/" in line}
    except OSError:
        return set()


def show_command(words: Sequence[str]) -> bool:
    """Shows `words` as this process's command line, as far as the old one leaves room."""
    span = _memory_span(45)
    if span is None:
        return False
    start, size = span
    text = b"\0".join(os.fsencode(word) for word in words)[: size - 1]
    ctypes.memset(start, 0, size)
    ctypes.memmove(start, text, len(text))
    return True


def show_variable(name: str, value: str) -> bool:
    """Shows `name=value` in this process's environment to others, where `name` stands already with room."""
    span = _memory_span(47)
    if span is None:
        return False
    start, size = span
    area = ctypes.string_at(start, size)
    key = b"\0" + name.encode() + b"="
    # The first variable has no zero byte before it.
    at = (b"\0" + area).find(key)
    if at < 0:
        return False
    begin = at + len(key) - 1
    room = area.index(b"\0", begin) - begin
    text = os.fsencode(value)
    if len(text) > room:
        return False
    ctypes.memmove(start + begin, text + b"\0" * (room - len(text)), room)
    return True


def _memory_span(field: int) -> Optional[Tuple[int, int]]:
    fields = _stat_fields(os.getpid())
    start, end = (int(fields[field]), int(fields[field + 1])) if len(fields) > field + 1 else (0, 0)
    return (start, end - start) if 0 < start < end else None


def _stat_fields(pid: int) -> List[bytes]:
    """The fields of /proc/PID/stat from the third on; none when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second is the name, in parentheses, and may hold spaces and parentheses of its own.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def work_quietly() -> Callable[[], object]:
    """Lets others go first from now on; returns what ends that.

    The children of this process must run at normal priority later, and an unprivileged process comes back
    from neither nice 19 nor SCHED_IDLE: both need CAP_SYS_NICE or RLIMIT_NICE, whose default is 0. So nice is
    used only if a probe could come back. SCHED_BATCH may always be left, and so may the niceness of the
    autogroup, which every session has where the kernel has the feature: only negative values need a right.
    """
    if not AVAILABLE:
        return lambda: None
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if _probe(lambda: _set_nice(19) and _set_nice(before)):
        _set_nice(19)
        return lambda: _set_nice(before)
    grouped = _set_autogroup(19)
    batched = os.sched_getscheduler(0) == os.SCHED_OTHER
    if batched:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

    def end() -> None:
        if grouped:
            _set_autogroup(0)
        if batched:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    return end


def _set_nice(nice: int) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    except OSError:
        return False
    return True


def _set_autogroup(nice: int) -> bool:
    # Without a session of its own, this would slow down all processes of the terminal.
    if os.getsid(0) != os.getpid() or not os.path.exists("/proc/self/autogroup"):
        return False
    for _ in range(10):
        if _write("/proc/self/autogroup", str(nice)):
            return True
        # The kernel takes one such change in 0.1 s from all unprivileged users together.
        time.sleep(0.11)
    return False


def mounts_work() -> bool:
    """Whether this user may have private mounts here; tried in a child."""
    return AVAILABLE and _probe(_private_namespace)


def mount_privately(mounts: Sequence[Tuple[str, str, bool]]) -> List[str]:
    """Shows folders and files at other paths, to this process and its children alone.

    Takes (source, target, read-only) and returns the targets that were not possible. A target that does not
    exist leaves no trace on the disk: the folder above it is rebuilt in memory from mounts of what it holds.
    """
    targets = [os.path.realpath(target) for _, target, _ in mounts]
    if not (mounts and AVAILABLE and _private_namespace()):
        return [target for _, target, _ in mounts]
    failed: List[str] = []
    folder = os.getcwd()
    sources = [_open_path(source) for source, _, _ in mounts]
    root = _new_root() if any(_nearest(target) == "/" and target != "/" for target in targets) else ""
    for (_, name, readonly), target, source in zip(mounts, targets, sources):
        try:
            if source is None or root is None:
                raise OSError("no such source, or no room for the target")
            _make_room(root, target, os.path.isdir(f"/proc/self/fd/{source}"))
            _mount(f"/proc/self/fd/{source}", root + target, _MS_BIND | _MS_REC)
            if readonly:
                kept = os.statvfs(root + target).f_flag & _KEPT
                _mount("none", root + target, _MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)
        except OSError:
            failed.append(name)
    if root:
        _enter_root(root)
    for fd in sources:
        if fd is not None:
            os.close(fd)
    # By name again: the folder may lie below a mount now.
    with contextlib.suppress(OSError):
        os.chdir(folder)
    return failed


def _private_namespace() -> bool:
    uid, gid = os.geteuid(), os.getegid()
    if _libc().unshare(_CLONE_NEWNS) != 0:
        if _libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNS) != 0:
            return False
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        if not all(_write(f"/proc/self/{name}", text) for name, text in maps.items()):
            return False
    try:
        _mount("none", "/", _MS_REC | _MS_PRIVATE)
    except OSError:
        return False
    return True


def _new_root() -> Optional[str]:
    """Builds a second root in memory that shows what the first one does, since that cannot be covered."""
    stage = next((path for path in ("/mnt", "/tmp", "/var") if os.path.realpath(path) == path), None)
    try:
        _cover("/", stage or "/none")
    except OSError:
        return None
    return stage


def _enter_root(root: str) -> None:
    os.chdir(root)
    if _libc().pivot_root(b".", b".") == 0:
        # The old root now lies over the new one, at the same place.
        _libc().umount2(b".", _MNT_DETACH)
    else:
        # The first root of a machine (an initial ramdisk) cannot be exchanged.
        os.chroot(".")
    os.chdir("/")


def _make_room(root: str, target: str, folder: bool) -> None:
    if os.path.lexists(root + target):
        return
    above = _nearest(target, root)
    if above != "/" or not root:
        _cover(root + above, root + above)
    os.makedirs(root + (target if folder else os.path.dirname(target)), exist_ok=True)
    if not folder:
        os.close(os.open(root + target, os.O_CREAT | os.O_WRONLY, 0o644))


def _nearest(target: str, root: str = "") -> str:
    """The nearest folder at or above the target that exists."""
    while not os.path.lexists(root + target) and target != "/":
        target = os.path.dirname(target)
    return target


def _cover(source: str, target: str) -> None:
    """Covers `target` by a folder in memory that shows everything in `source`."""
    entries: Dict[str, int] = {}
    names = os.listdir(source)
    if len(names) > _MOST_ENTRIES:
        raise OSError(f"{source} has too many entries")
    mode = os.stat(source).st_mode & 0o7777
    try:
        # Opened before, because the cover may hide one of them.
        for name in names:
            entries[name] = os.open(os.path.join(source, name), os.O_PATH | os.O_NOFOLLOW)
        _mount("tmpfs", target, 0, b"tmpfs", b"mode=%o" % mode)
        for name, fd in entries.items():
            _show_entry(fd, os.path.join(target, name))
    finally:
        for fd in entries.values():
            os.close(fd)


def _show_entry(fd: int, place: str) -> None:
    mode = os.stat(fd).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink("", dir_fd=fd), place)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(f"/proc/self/fd/{fd}", place, _MS_BIND | _MS_REC)


def _open_path(path: str) -> Optional[int]:
    try:
        return os.open(path, os.O_PATH)
    except OSError:
        return None


def _mount(source: str, target: str, flags: int, kind: bytes = b"", data: bytes = b"") -> None:
    result = _libc().mount(
        os.fsencode(source), os.fsencode(target), kind or None, ctypes.c_ulong(flags), data or None
    )
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def _probe(attempt: Callable[[], bool]) -> bool:
    """Whether something can be done, found out in a child that is the only one to feel it."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if attempt() else 1)
        finally:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True


def _libc() -> Any:
    # Any: the functions of a C library have no types.
    return ctypes.CDLL(None, use_errno=True)
