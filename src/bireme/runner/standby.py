"""Forks the guard of a job before the job is known, so that both import their modules at the same time.

`bireme run` needs about as long to import what reads and checks a submission as its guard needs for what runs
a job. The standby is a fork of the command that imports the second half, waits at a socket, and becomes the
guard of the first run that is handed to it. When the command ends without a run, the socket closes and the
standby ends. The command forks before it has imported anything, so this module imports next to nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bireme.runs.directory import RunDirectory
    from bireme.runs.storage.locks import FileLock

MARK = "BIREME_RUN"
_LONGEST = 1 << 16

_standby: socket.socket | None = None


def prepare() -> None:
    """Fork the standby, where a fork of this process can become a guard; otherwise do nothing."""
    global _standby
    # The same two cases as in `guard.start`: threads do not survive a fork, a rank's mark would.
    if _standby is not None or threading.active_count() > 1 or MARK in os.environ:
        return
    ours, theirs = socket.socketpair()
    if min(ours.fileno(), theirs.fileno()) <= 2:
        # A standard stream is closed, and the socket has got its number, which is not ours to keep.
        ours.close()
        theirs.close()
        return
    # What is buffered would be written by both processes.
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        theirs.close()
        _standby = ours
        return
    # Nothing of the command may run twice: whatever happens, this process ends here.
    try:
        ours.close()
        _wait(theirs)
    finally:
        os._exit(0)


def start(run: RunDirectory, lock: FileLock, *, stdin: bool = False) -> None:
    """Start the guard and the runner of a run that this process holds; `stdin` passes on what it reads."""
    global _standby
    standby, _standby = _standby, None
    if standby is not None:
        message = os.fsencode(f"{run.id.name}\0{run.id.number}\0{run.home}")
        with standby:
            try:
                # With it go the lock and, where it is passed on, the command's input. The lock is held in the
                # socket, too: there is no instant without a holder.
                socket.send_fds(standby, [message], [lock.fd, 0] if stdin else [lock.fd])
            except OSError:
                pass
            else:
                lock.close()
                return
    # There is no standby, or it has died. Imported here: a command whose standby guards needs none of it.
    from bireme.runner import guard

    guard.start(run, lock, stdin=stdin)


def _wait(command: socket.socket) -> None:
    """Import what a guard and a runner need, and become the guard of the run that is handed over."""
    # First of all leave the terminal: Ctrl-C and a closed window are meant for the command. And let go of its
    # streams: a pipe is read to its end only when the last process that can write to it has closed it.
    os.setsid()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    gc.disable()  # imports make no garbage, and these are waited for
    from pathlib import Path

    from bireme.runner import guard
    from bireme.runs.directory import RunDirectory
    from bireme.runs.run_files import RunId
    from bireme.runs.storage.locks import FileLock

    gc.enable()
    message, descriptors, _, _ = socket.recv_fds(command, _LONGEST, 2)
    command.close()
    if not message:
        return  # the command has ended without a run
    name, run_number, home = os.fsdecode(message).split("\0")
    run = RunDirectory(Path(home), RunId(name, int(run_number)))
    for descriptor in descriptors:
        # A descriptor that comes through a socket passes to programs. The lock must not: git, a rank or what
        # one of them leaves behind would hold the run.
        os.set_inheritable(descriptor, False)
    lock, *stdin = descriptors
    guard.become(run, FileLock(lock), stdin[0] if stdin else None)
