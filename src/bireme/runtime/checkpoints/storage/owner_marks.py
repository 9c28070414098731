"""Marks: what a place of checkpoints says about the process that writes there, and which may replace it.

The owner renews its mark for as long as it lives. A mark is judged by whether it changes, never by the time
that it states: the clocks of two hosts differ. It was written by others, so nothing in it is trusted.
"""

from __future__ import annotations

import enum
import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Optional, Tuple

from ..values import Owner

LIMIT = 16 << 10
"""The most bytes that a mark may have."""
GENERATIONS = 1 << 40
_HEX = re.compile(r"[0-9a-f]{0,64}")
_LEGACY = {"run", "attempt", "host", "pid"}


@dataclass(frozen=True)
class OwnerMark:
    """What a place says about its owner: rank 0 of one launch of a run."""

    run: str
    attempt: int = 0
    launch: str = ""
    session: str = ""
    """Drawn by the process that took the place: no other process ever has the same."""
    generation: int = 0
    """Grows each time that the place is taken."""
    host: str = ""
    boot: str = ""
    """Where its process number means something: a life of a kernel, and a namespace there."""
    pid: int = 0
    started: int = 0
    beat: int = 0
    period: float = 0.0
    """The seconds between two renewals that the owner promises."""
    is_released: bool = False
    origin: Optional[str] = None
    """The nonce of the checkpoint that rank 0 has restored and told of; None if it told of nothing."""

    def is_of(self, owner: Owner) -> bool:
        """Whether it was set by rank 0 of the same attempt."""
        mine = (owner.run, owner.attempt, owner.launch)
        return (self.run, self.attempt, self.launch) == mine and not self.is_released

    @property
    def shown_run(self) -> str:
        return _shown(self.run)

    @property
    def shown_process(self) -> str:
        return f"process {self.pid} on {_shown(self.host)}"


class Malformed(Exception):
    """Something lies where a mark should, and is none."""


class MarkVerdict(enum.Enum):
    """Whether a mark may be replaced."""

    TAKE = "take"
    WATCH = "watch"
    """Only once its owner has been silent for long."""
    FOREIGN = "foreign"
    """Not by a script that did not ask to continue from there."""


def judge(mark: Optional[OwnerMark], owner: Owner, is_meant: bool, is_dead: bool) -> MarkVerdict:
    """Whether an owner may replace a mark; `is_dead` if the process that set it is known to have ended."""
    if mark is None:
        return MarkVerdict.TAKE
    if mark.run != owner.run and not is_meant:
        return MarkVerdict.FOREIGN
    if mark.is_released or is_dead:
        return MarkVerdict.TAKE
    # It is cut off: it finds itself replaced before it commits anything more.
    return MarkVerdict.TAKE if is_earlier(mark, owner) else MarkVerdict.WATCH


def is_earlier(mark: OwnerMark, owner: Owner) -> bool:
    """Whether it was set by an earlier attempt of the same run, which is not wanted any more.

    Only Bireme counts the attempts of a run. Elsewhere the number is that of a launcher's own restarts: two
    jobs that share a place by mistake may have everything in common but that.
    """
    if mark.launch or owner.launch:
        return False
    return mark.run == owner.run and mark.attempt < owner.attempt


def made(owner: Owner, generation: int, period: float, session: str = "") -> OwnerMark:
    """The mark of this process, with the session that it has had before, or else a new one."""
    return OwnerMark(
        run=owner.run,
        attempt=owner.attempt,
        launch=owner.launch,
        session=session or os.urandom(8).hex(),
        generation=generation,
        host=os.uname().nodename,
        boot=boot(),
        pid=os.getpid(),
        started=_started(os.getpid()) or 0,
        period=period,
    )


def write(mark: OwnerMark) -> bytes:
    return json.dumps(asdict(mark), separators=(",", ":")).encode("ascii") + b"\n"


def read(text: bytes) -> OwnerMark:
    """Reads a mark; raises Malformed for everything that is none."""
    try:
        content = json.loads(text) if len(text) <= LIMIT else None
    except (ValueError, RecursionError):
        raise Malformed("is no JSON") from None
    if not isinstance(content, dict):
        raise Malformed("is no mark")
    known = {field.name for field in fields(OwnerMark)}
    mark = OwnerMark(**{"run": None, **{name: value for name, value in content.items() if name in known}})
    if not (_LEGACY.issubset(content) and _is_sound(mark)):
        raise Malformed("is no mark")
    return mark


def damaged(path: str) -> str:
    """What is said of something that lies where a mark should."""
    return f"{path} is damaged: it does not say which process writes there"


def key(run: str) -> str:
    """A run in a file's name."""
    return hashlib.sha256(run.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_past(name: re.Match[str], owner: Owner) -> bool:
    """Whether the thing of this name was left by this run, by this attempt or one before it."""
    return name.group(1) == key(owner.run) and int(name.group(2)) <= owner.attempt


def is_outdated(choice: re.Match[str], owner: Owner) -> bool:
    """Whether the choice of this name is past, and not one that ranks of this very launch may wait for."""
    is_current = (int(choice.group(2)), choice.group(3)) == (owner.attempt, owner.launch or "0")
    return is_past(choice, owner) and not is_current


def is_dead(mark: OwnerMark) -> bool:
    """Whether the process that set the mark is known to have ended. False where that is not known here."""
    return _is_listed_here(mark) and _started(mark.pid) != mark.started


def is_alive(mark: OwnerMark) -> bool:
    """Whether another process that set the mark is known to live. False where that is not known here."""
    return _is_listed_here(mark) and mark.pid != os.getpid() and _started(mark.pid) == mark.started


def boot() -> str:
    """Names this kernel's life and the namespace in which processes are numbered; empty if unknown."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""  # another namespace's list of processes: the numbers mean others
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as opened:
            return f"{opened.read(64).strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def is_same_kernel(mark: OwnerMark) -> bool:
    """Whether it was set under this very kernel, whose locks hold between all of its processes."""
    if not mark.boot:
        # An earlier Bireme did not note it; on macOS it cannot be known.
        return mark.host == os.uname().nodename and (not mark.session or not boot())
    return mark.boot.partition(" ")[0] == boot().partition(" ")[0]


def _is_listed_here(mark: OwnerMark) -> bool:
    """Whether its process number means the same to this process."""
    is_noted = bool(mark.boot and mark.started)
    return is_noted and mark.boot == boot() and mark.host == os.uname().nodename


def _started(pid: int) -> Optional[int]:
    """When a living process was started, in the kernel's ticks; None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as opened:
            # The name, in brackets, may hold anything.
            state, *rest = opened.read(4096).rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    return None if state in (b"Z", b"X") else int(rest[18])


def _is_sound(mark: OwnerMark) -> bool:
    texts: Tuple[Any, ...] = (mark.run, mark.launch, mark.session, mark.host, mark.boot, mark.origin or "")
    numbers: Tuple[Any, ...] = (mark.attempt, mark.generation, mark.pid, mark.started, mark.beat)
    released: Any = mark.is_released
    period: Any = mark.period
    return (
        all(type(text) is str and len(text) <= 4096 for text in texts)
        and all(type(number) is int and 0 <= number < 1 << 62 for number in numbers)
        and mark.generation < GENERATIONS
        and type(released) is bool
        and type(period) in (int, float)
        and 0 <= period < 3600
        and all(_HEX.fullmatch(text) for text in (mark.session, mark.launch, mark.origin or ""))
    )


def _shown(text: str) -> str:
    """A word of another run, fit for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:200])
