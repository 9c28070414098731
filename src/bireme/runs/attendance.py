"""Tells the ranks of a run whether a person follows it at the terminal and can answer them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bireme.runs import locks

LOCK = "terminal"
"""In the run directory: held, with a process id inside, as long as its user follows."""


@contextmanager
def attending(folder: Path) -> Iterator[None]:
    """Says so as long as it lasts, however this process ends; a second follower changes nothing."""
    lock = locks.hold(folder / LOCK)
    if lock is None:
        yield
        return
    with lock:
        os.pwrite(lock.fd, f"{os.getpid():<31}\n".encode(), 0)
        yield
