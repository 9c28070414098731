"""Reads the logs of containers, to the end or followed through every break of the connection.

The API gives each line with its time. A connection that breaks is made again from the time of the last line
that came, in whole seconds as the API takes it; what was read before is then left out.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.runs.logs.log_entries import (
    last_state,
)
from bireme.runs.logs.log_reader import LogLine
from bireme.runtime.records import log_echo

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two tries to read a log that cannot be read."""
_LATEST = 253_402_300_800
"""Seconds from 1970 to the year 10000, which the API cannot be asked for."""
STREAM = ""
"""A cluster does not tell what went to standard output and what to standard error."""
ECHO = "echo"
"""The stream of lines that hold what a rank reported; no program printed them for people."""


class LogSource(Struct, frozen=True):
    """One container of a pod, and the replica whose lines it prints."""

    namespace: str
    pod: str
    uid: str
    container: str
    replica: str

    @property
    def path(self) -> str:
        return path("v1", "pods", self.namespace, self.pod, "log")


class LogPosition:
    """How far a log was read: the time of the last line, and how many lines had that very time."""

    def __init__(self, since: float | None = None, last: int | None = None) -> None:
        self._first = int(since * 1e9) if since is not None else None
        self._last = last
        self._nanoseconds = -1
        self._same = 0
        self.count = 0
        """Lines that passed."""

    @property
    def last(self) -> int | None:
        """How many lines are wanted at most; None for all, as after the first reading."""
        return self._last if self._nanoseconds < 0 else None

    def asking_for(self, last: int | None) -> LogPosition:
        """The same place, from where so many lines are asked for."""
        other = copy.copy(self)
        other._last, other.count = last, 0
        return other

    def go_on_from(self, other: LogPosition) -> None:
        self._nanoseconds, self._same, self.count = other._nanoseconds, other._same, other.count

    def query(self) -> dict[str, str]:
        """Where the API is to begin: at most a second before the next line."""
        if self._nanoseconds >= 0:
            return {"sinceTime": _written(self._nanoseconds)}
        found = {} if self._first is None else {"sinceTime": _written(self._first)}
        return found if self._last is None else {**found, "tailLines": str(self._last)}

    def news(self) -> Callable[[bytes], tuple[float, bytes] | None]:
        """A filter for one reading, which lets only lines pass that no reading has returned."""
        left = self._same

        def passed(line: bytes) -> tuple[float, bytes] | None:
            nonlocal left
            stamp, _, text = line.partition(b" ")
            at = nanoseconds(stamp)
            if at is None or (self._first is not None and at < self._first) or at < self._nanoseconds:
                return None
            if at == self._nanoseconds:
                if left > 0:
                    left -= 1
                    return None
                self._same += 1
            else:
                self._nanoseconds, self._same, left = at, 1, 0
            self.count += 1
            return at / 1e9, text

        return passed


async def read(api: Api, source: LogSource, mark: LogPosition) -> list[LogLine]:
    """The lines from a mark to the end; none where the container has not started or is gone.

    Where only the last few are wanted, these are the last few for people: more are asked for until so many
    are among them.
    """
    wanted = mark.last
    asked = wanted
    while True:
        trial = mark.asking_for(asked)
        found = await _read(api, source, trial)
        for_people = sum(line.stream != ECHO for line in found)
        if wanted is None or asked is None or for_people >= wanted or trial.count < asked:
            mark.go_on_from(trial)
            return found
        asked *= 4


async def beginning(api: Api, source: LogSource, size: int) -> list[LogLine]:
    """The lines in the first bytes of a log, those for us included; the last of them may be cut."""
    return await _read(api, source, LogPosition(), limitBytes=str(size))


async def ending(api: Api, source: LogSource, count: int) -> list[LogLine]:
    """The last lines of a log, those for us included."""
    return await _read(api, source, LogPosition(last=count))


async def _read(api: Api, source: LogSource, mark: LogPosition, **more: str) -> list[LogLine]:
    found: list[LogLine] = []
    try:
        async for line in _lines(api, source, mark, more):
            found.append(line)
    except ApiError as error:
        if error.status not in (400, 404):
            raise
    return found


async def follow(
    api: Api,
    source: LogSource,
    mark: LogPosition,
    emit: Callable[[LogLine], None],
    has_ended: Callable[[], bool],
) -> None:
    """Reads on as lines come, over broken connections and restarts, until the container has ended."""
    pause = FIRST_PAUSE
    while True:
        ended = has_ended()  # asked before reading: what was printed before the end is then there to be read
        try:
            async for line in _lines(api, source, mark, {} if ended else {"follow": "true"}):
                emit(line)
                pause = FIRST_PAUSE
        except ApiError as error:
            if error.status == 404 or (ended and error.status == 400):
                return
        except (OSError, TimeoutError):
            ended = False
        if ended:
            return
        await asyncio.sleep(pause)
        pause = min(LONGEST_PAUSE, pause * 1.5)


def sources(pod: Pod, replica: str) -> list[LogSource]:
    """The containers of a pod that have or will have printed something."""
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    meta = pod.metadata
    return [
        LogSource(meta.namespace, meta.name, meta.uid, status.name, replica)
        for status in statuses
        if status.state.running or status.state.terminated or status.lastState.terminated
    ]


def has_ended(pod: Pod | None, container: str) -> bool:
    """Whether a container will not print any more; a pod that is gone does not either."""
    if pod is None:
        return True
    if pod.status.phase in ("Succeeded", "Failed"):
        return True
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    found = next((status for status in statuses if status.name == container), None)
    is_init = any(status.name == container for status in pod.status.initContainerStatuses)
    ended = found is not None and found.state.terminated is not None
    return ended and (is_init or pod.spec.restartPolicy == "Never")


async def _lines(
    api: Api, source: LogSource, mark: LogPosition, more: dict[str, str]
) -> AsyncIterator[LogLine]:
    query = {"container": source.container, "timestamps": "true", **mark.query(), **more}
    passed = mark.news()
    async for line in api.lines(source.path, **query):
        if (new := passed(line)) is not None:
            at, text = new
            own, echoed = log_echo.taken_apart(last_state(text).decode(errors="replace"))
            if own or not echoed:
                yield LogLine(at, source.replica, source.container, STREAM, own)
            if echoed:
                yield LogLine(at, source.replica, source.container, ECHO, echoed)


def nanoseconds(stamp: bytes) -> int | None:
    """The time before a line, such as `2026-01-31T12:00:00.123456789Z`; None if it is none."""
    try:
        whole, _, rest = stamp.decode("ascii").partition(".")
        if not rest:
            return _second(whole) * 10**9
        digits = rest[: next((at for at, character in enumerate(rest) if not character.isdigit()), len(rest))]
        return _second(whole + rest[len(digits) :]) * 10**9 + int(digits.ljust(9, "0")[:9])
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=64)
def _second(written: str) -> int:
    found = int(datetime.fromisoformat(written).timestamp())
    if not 0 <= found < _LATEST:
        raise ValueError("no line was printed then")
    return found


def _written(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
