"""Prints what a rank reports into its pod's log, a portion at a time, because its files end with the pod.

A thread reads it from the rank's own file of records, so that a report costs no more than without an echo,
and a log that is slow to write to does not delay the training.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import Callable, Dict, Iterable, Iterator, List, Optional

from ..records import log_echo, thinning
from ..records.log_echo import Reporter
from ..records.record_format import FileOpened, Params, Scalars, Text
from ..records.record_reader import RecordReader, files
from ..records.thinning import Thinned
from .rank_env import RankEnv

PATIENCE = 5.0
"""Seconds for the last portion, when the script ends."""
_STDERR = 2
_WORK, _REST = 0.002, 0.004
"""Seconds at a time: many old records are read while the training runs, which needs the interpreter too."""

Own = Callable[[], str]
"""The file that this process writes its records to; empty while there is none."""


class Echo:
    """Prints what one rank reports, from `start` to `close`."""

    def __init__(self, folder: str, env: RankEnv, own: Own) -> None:
        self._folder, self._own = folder, own
        self._rank, self._attempt = env.rank, env.attempt
        self._role = "" if env.trains else env.role
        self._followed: Dict[str, _Followed] = {}
        self._has_told_of_the_past = False
        self._out = -1
        self._asked_to_end = threading.Event()
        self._thread = threading.Thread(target=self._print_until_closed, name="bireme-echo", daemon=True)
        self._process = os.getpid()

    def start(self) -> None:
        # A number of its own: a script may close standard error, and open something else under its number.
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no more threads
            self._out = os.dup(_STDERR)
            self._thread.start()
            atexit.register(self.close)  # for a script that does not close its run

    def close(self) -> None:
        """Prints what is left."""
        self._asked_to_end.set()
        if os.getpid() == self._process and self._thread.is_alive():  # a forked process has no such thread
            self._thread.join(PATIENCE)
        atexit.unregister(self.close)

    def portion(self, elapsed: float) -> Iterator[str]:
        """The lines for what was reported since the last portion; before the first comes the past."""
        own = self._own()
        if not own:
            return
        if not self._has_told_of_the_past:
            self._has_told_of_the_past = True
            for file in files(self._folder):
                if file.rank == self._rank and file.number == 0 and file.attempt < self._attempt:
                    yield from self._lines(_Followed(file.path, file.attempt), thinning.BYTES_OF_THE_PAST)
            self._followed[own] = _Followed(own, self._attempt)
            yield from self._lines(self._followed[own], thinning.BYTES_OF_THE_PAST)
            return
        if own not in self._followed:
            self._followed[own] = _Followed(own, self._attempt)
        for followed in self._followed.values():
            yield from self._lines(followed, thinning.budget(elapsed))

    def _lines(self, followed: _Followed, room: int) -> Iterator[str]:
        begun = time.monotonic()

        def rest() -> None:
            nonlocal begun
            if time.monotonic() - begun > _WORK and not self._asked_to_end.is_set():
                time.sleep(_REST)
                begun = time.monotonic()

        for life in followed.news(rest):
            reporter = Reporter(self._rank, followed.attempt, life.start, self._role)
            yield from log_echo.lines(reporter, [*life.params, *life.kept.texts(), *life.kept.points(room)])

    def _print_until_closed(self) -> None:
        begun, written = time.monotonic(), 0
        while not self._asked_to_end.wait(thinning.pause(time.monotonic() - begun, written)):
            written = self._print(time.monotonic() - begun)
        self._print(time.monotonic() - begun)
        os.close(self._out)

    def _print(self, elapsed: float) -> int:
        """Prints a portion; returns how many bytes it has."""
        written = 0
        # An echo that cannot be printed is not worth an error: the numbers are in the file.
        with contextlib.suppress(OSError):
            for line in self.portion(elapsed):
                data = f"{line}\n".encode()
                written += len(data)
                while data:
                    data = data[os.write(self._out, data) :]
        return written


class _Life:
    """What is new of one start of a rank."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.params: List[Params] = []
        self.kept = Thinned()


class _Followed:
    """One file of records, and in which of its lives its rank is."""

    def __init__(self, path: str, attempt: int) -> None:
        self._reader = RecordReader(path, leaves_out_large=True)
        self.attempt = attempt
        self._starts = 0

    def news(self, rest: Callable[[], None]) -> Iterable[_Life]:
        """What came since the last time; `rest` is called again and again meanwhile."""
        life: Optional[_Life] = None
        for number, record in enumerate(self._reader.each()):
            if number % 16 == 0:
                rest()
            if isinstance(record, FileOpened):
                self._starts += 1
                if life is not None:
                    yield life
                life = None
                continue
            life = life or _Life(max(0, self._starts - 1))
            if isinstance(record, Scalars):
                life.kept.add(record)
            elif isinstance(record, Text):
                life.kept.add_text(record)
            elif isinstance(record, Params):
                life.params.append(record)
        if life is not None:
            yield life
