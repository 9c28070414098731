"""Tells the ranks of a run whether a person follows it at the terminal and can answer them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from bireme import errors
from bireme.runs.storage import locks

LOCK = "terminal"
"""In the run directory: held, with a process id inside, as long as its user follows."""


@contextmanager
def attending(folder: Path) -> Iterator[None]:
    """Says so as long as it lasts, however this process ends; a second follower changes nothing.

    Where that cannot be written, as on a full disk, the job is followed all the same.
    """
    lock = None
    try:
        lock = locks.hold(folder / LOCK)
        if lock is not None:
            os.pwrite(lock.fd, f"{os.getpid():<31}\n".encode(), 0)
    except (OSError, errors.BiremeError):
        if lock is not None:
            lock.close()
            lock = None
    with lock or nullcontext():
        yield
