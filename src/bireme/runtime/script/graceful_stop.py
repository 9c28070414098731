"""Answers SIGTERM: the rank saves the step that it is at, and ends."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any, Callable, Optional

from .save_schedule import SaveSchedule


class GracefulStop:
    """The answer to SIGTERM, from `listen` to `stop`."""

    def __init__(self, schedule: SaveSchedule, finish: Callable[[], None]) -> None:
        """`finish` waits for what is being written."""
        self._schedule = schedule
        self._finish = finish
        self._is_script_asking = False
        self._before: Any = None  # what signal.signal returned
        self._rank = 0

    @property
    def is_asked(self) -> bool:
        """Whether the run was asked to end. A script that looks here ends itself."""
        self._is_script_asking = True
        self.listen()
        return self._schedule.is_leaving

    def listen(self) -> None:
        """Answers SIGTERM with a last checkpoint from now on."""
        if self._before is not None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return  # the script has a handler of its own
        self._rank = os.getpid()
        self._before = signal.signal(signal.SIGTERM, self._answer)

    def stop(self) -> None:
        if self._before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _answer(self, number: int, frame: Optional[FrameType]) -> None:
        is_rank = os.getpid() == self._rank
        if is_rank and (self._is_script_asking or self._schedule.can_leave):
            self._schedule.leave()
            return
        # A process that the rank has forked has nothing to save. Ranks that cannot agree on a last step
        # resume later from what they have begun to save; to train on until the kill would be lost work.
        if is_rank:
            # The signal may have come while the loop was starting a save: then there is nothing to wait for.
            with contextlib.suppress(RuntimeError):
                self._finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
