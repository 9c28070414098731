"""Makes a rank say where its Python code is: when it crashes in C code, and whenever it is asked.

A crash (SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL) leaves the stack in the rank's standard error. On SIGNAL
the stacks of all threads go to a file in the run directory, written by C code: it answers although the
program hangs in a library or in a collective. The signal would end a process that does not expect it, so the
file is named after the process that does.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without it `signal`, which imports `enum`
import faulthandler
import os

FOLDER = "stacks"
# A real-time one: schedulers and frameworks use SIGUSR1, SIGUSR2 and SIGPROF. SIGINFO is for systems without.
SIGNAL = _signal.SIGRTMAX - 7 if hasattr(_signal, "SIGRTMAX") else getattr(_signal, "SIGINFO", 0)


def watch() -> None:
    """Sets both up; a rank without room for the file, or without a run, is only watched for crashes."""
    try:
        faulthandler.enable(2, all_threads=True)
        folder, replica = os.environ.get("BIREME_RUN_DIR"), os.environ.get("BIREME_REPLICA")
        if not folder or not replica or not SIGNAL:
            return
        folder = os.path.join(folder, FOLDER)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        path = os.path.join(folder, f"{replica}.{os.getpid()}")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if fd <= 2:
            os.close(fd)  # a script that closed a standard stream would find our file in its place
            return
        faulthandler.register(SIGNAL, fd, all_threads=True, chain=False)
    except (OSError, ValueError, RuntimeError, AttributeError):
        return
