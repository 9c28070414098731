"""Follows jobs until they end, or until the user leaves."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from types import FrameType

from bireme.cli.render import render_diagnosis
from bireme.cli.render.render_lines import Prefixes, status_line
from bireme.cli.screen import Screen
from bireme.sdk import job_state
from bireme.sdk.backends import SOON, Following, Pace
from bireme.sdk.views import Glance, LogLine

SECOND_THOUGHTS = 2.0
"""Seconds within which a second Ctrl-C stops the job."""

_REDRAW = 0.2
_MOST_MISSED = 5
"""Attempts between two looks that get a line of their own."""


class Ending(Enum):
    """The reason for which following ended."""

    OVER = "the jobs have ended or were suspended"
    LEFT = "the user pressed Ctrl-C"
    SIGNALLED = "a signal asked us to end"
    CLOSED = "our output is not read any more"


class Signals:
    """Notes the signals that came, and only that, so that nothing is left half done."""

    def __init__(self) -> None:
        self.interrupts = 0
        self.ended = False

    def note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            self.interrupts += 1
        else:
            self.ended = True


@contextmanager
def noted() -> Iterator[Signals]:
    """Notes signals instead of dying of them."""
    signals = Signals()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signals.note) for number in numbers}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def follow(watches: Sequence[Following], screen: Screen, prefixes: Prefixes, signals: Signals) -> Ending:
    """Shows lines and state until every job is over, or the user asks to end."""
    news_of_jobs = _News(watches, screen, prefixes)
    pace = Pace()
    try:
        while not all(watch.is_over() or not watch.exists() for watch in watches):
            news = news_of_jobs.look()
            if signals.ended:
                return Ending.SIGNALLED
            if signals.interrupts:
                return Ending.LEFT
            time.sleep(pace.pause(news))
        news_of_jobs.drain()
        return Ending.OVER
    except BrokenPipeError:
        return Ending.CLOSED
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return Ending.SIGNALLED  # the terminal itself is gone
    finally:
        with suppress(OSError):
            screen.clear()


def thinks_again(signals: Signals, pressed: int) -> bool:
    """Gives the user the time for a Ctrl-C beyond those already pressed; returns whether it came."""
    end = time.monotonic() + SECOND_THOUGHTS
    while time.monotonic() < end and signals.interrupts <= pressed and not signals.ended:
        time.sleep(SOON)
    return signals.interrupts > pressed or signals.ended


class _News:
    """Shows the news of jobs, each once."""

    def __init__(self, watches: Sequence[Following], screen: Screen, prefixes: Prefixes) -> None:
        self._watches = watches
        self._screen = screen
        self._prefixes = prefixes
        self._begin = time.monotonic()
        self._last = ""
        self._drawn = 0.0
        self._before: dict[str, Glance] = {}

    def look(self) -> bool:
        """Shows what is new, and returns whether there were lines."""
        lines = [line for watch in self._watches for line in watch.poll()]
        self._print(lines)
        if self._screen.shows_prompts:
            newest = self._unfinished()
            self._screen.prompt(self._prefixes.line(newest) if newest is not None else "")
        now = time.monotonic()
        if now - self._drawn >= _REDRAW:
            self._drawn = now
            glances = [watch.glance() for watch in self._watches]
            for watch, glance in zip(self._watches, glances, strict=True):
                self._news(watch, glance)
                if watch.revive():
                    self._screen.say(f"resumed {glance.id}: its runner had died")
            if self._screen.is_live:
                newest = self._unfinished()
                last = newest.text if newest is not None else self._last
                self._screen.status(status_line(glances, last, now - self._begin))
        return bool(lines)

    def drain(self) -> None:
        """Shows the lines that are left, and the news of a job that was quicker than the last look."""
        self._print([line for watch in self._watches for line in watch.drain()])
        for watch in self._watches:
            if watch.exists():
                self._news(watch, watch.glance())

    def _print(self, lines: list[LogLine]) -> None:
        if lines:
            lines.sort(key=lambda line: line.time)
            self._last = lines[-1].text
            self._screen.lines([self._prefixes.line(line) for line in lines])

    def _news(self, watch: Following, glance: Glance) -> None:
        """Says in a line what a person would ask about: why it waits, and why it began again."""
        before = self._before.get(glance.id)
        self._before[glance.id] = glance
        if glance.waiting and not (before and before.waiting):
            self._screen.say(f"{glance.id} waits: {glance.waiting}")
        if glance.stalled and not (before and before.stalled):
            self._screen.say(f"{glance.id}: {glance.stalled}")
        if glance.behind and not (before and before.behind):
            self._screen.say(f"{glance.id}: {glance.behind}")
        same = before.again if before and before.attempt == glance.attempt else ()
        for sentence in job_state.restart_news(same, glance.again):
            self._screen.say(sentence)
        # Several may have gone by since the last look.
        known = before.attempt if before else 0
        for attempt in range(max(known, glance.attempt - _MOST_MISSED) + 1, glance.attempt + 1):
            found = watch.why_restarted(attempt)
            why = render_diagnosis.sentence(found) if found else f"{glance.id} was restarted"
            self._screen.say(f"{why}; attempt {attempt + 1} begins")

    def _unfinished(self) -> LogLine | None:
        unfinished = [line for watch in self._watches if (line := watch.unfinished()) is not None]
        return max(unfinished, key=lambda line: line.time, default=None)
