"""How does what a rank reports leave its pod: in the pod's log, a portion every now and then.

It is read from the rank's own file of records by a thread of its own, so that a report costs what it always
costs, and a log that is slow to be written holds up nobody.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import Callable, Dict, Iterable, List, Optional, Tuple

from ..records import echoes, thinning
from ..records.echoes import Who
from ..records.layout import Opened, Record, Scalars
from ..records.reading import Reader, file_name, files
from .places import Place

PATIENCE = 5.0
"""Seconds for the last portion, when the script ends."""
_STDERR = 2

Write = Callable[[bytes], None]


class Echo:
    """Prints what one rank reports, from `start` to `close`."""

    def __init__(self, folder: str, place: Place, write: Optional[Write] = None) -> None:
        self._folder = folder
        self._rank, self._attempt = place.rank, place.attempt
        self._role = "" if place.trains else place.role
        self._write = write or _to_stderr
        self._followed: Optional[Dict[str, _Followed]] = None
        self._asked_to_end = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="bireme-echo", daemon=True)
        self._owner = os.getpid()

    def start(self) -> None:
        self._thread.start()
        atexit.register(self.close)  # for a script that does not close its run

    def close(self) -> None:
        """Prints what is left."""
        self._asked_to_end.set()
        if os.getpid() == self._owner:  # a forked process has no such thread
            self._thread.join(PATIENCE)
        atexit.unregister(self.close)

    def portion(self) -> List[str]:
        """The lines for what was reported since the last portion; the first one holds the past of the run."""
        most = thinning.MOST_AT_ONCE
        if self._followed is None:
            most = thinning.MOST_OF_THE_PAST
            past = (one for one in files(self._folder) if one.rank == self._rank)
            self._followed = {one.path: _Followed(one.path, one.attempt) for one in past if not one.number}
        own = os.path.join(self._folder, file_name(self._rank, self._attempt))
        if own not in self._followed:
            self._followed[own] = _Followed(own, self._attempt)
        return [line for one in self._followed.values() for line in self._lines(one, most)]

    def _lines(self, followed: _Followed, most: int) -> Iterable[str]:
        for start, records in followed.new():
            points = thinning.thinned([one for one in records if isinstance(one, Scalars)], most)
            others = [one for one in records if not isinstance(one, Scalars)]
            who = Who(self._rank, followed.attempt, start, self._role)
            yield from echoes.lines(who, [*others, *points])

    def _go_on(self) -> None:
        begun = time.monotonic()
        while not self._asked_to_end.wait(thinning.pause(time.monotonic() - begun)):
            self._print()
        self._print()

    def _print(self) -> None:
        # Nobody is there to be told: the numbers are in the file, and the training goes on.
        with contextlib.suppress(OSError):
            for line in self.portion():
                self._write(f"{line}\n".encode())


class _Followed:
    """One file of records, and in which of its lives its rank is."""

    def __init__(self, path: str, attempt: int) -> None:
        self._reader = Reader(path)
        self.attempt = attempt
        self._starts = 0

    def new(self) -> Iterable[Tuple[int, List[Record]]]:
        """What came since the last time, by the number of starts before it."""
        found: Dict[int, List[Record]] = {}
        for record in self._reader.read():
            if isinstance(record, Opened):
                self._starts += 1
            else:
                found.setdefault(max(0, self._starts - 1), []).append(record)
        return found.items()


def _to_stderr(data: bytes) -> None:
    """Writes whole lines; not by way of sys.stderr, which a script may have replaced."""
    while data:
        data = data[os.write(_STDERR, data) :]
