"""What does a rank do when it is politely asked to end: save the step that it is at, and end."""

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
        """Whether the run was asked to end. A script that looks here answers itself."""
        self._is_script_asking = True
        self.listen()
        return self._schedule.is_leaving

    def listen(self) -> None:
        """From now on a request to end is answered by a last checkpoint."""
        if self._before is not None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return  # the script has an answer of its own
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
        # A process that the rank has forked has nothing to save. Ranks that cannot agree on a last step go
        # on from what they have begun to save; to train on would be in vain.
        if is_rank:
            # The loop may be in the middle of beginning to save; then there is nothing to wait for.
            with contextlib.suppress(RuntimeError):
                self._finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
