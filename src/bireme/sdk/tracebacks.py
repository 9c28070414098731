"""Reads the stacks that Python's faulthandler writes: where the user's own code is. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line (?P<line>[0-9?]+) in (?P<function>.+)')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FATAL = "Fatal Python error: "
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen", "<string>")
_OURS = re.compile(r"(^|/)bireme/runtime/|/runtime/[^/]*\.zip/")


class Frame(Struct, frozen=True):
    file: str
    line: str
    function: str

    @property
    def is_ours(self) -> bool:
        return _OURS.search(self.file) is not None

    @property
    def is_the_users(self) -> bool:
        return not self.is_ours and not any(part in self.file for part in _LIBRARIES)


class Thread(Struct, frozen=True):
    """One thread, its innermost frame first."""

    title: str
    frames: tuple[Frame, ...]


def threads(lines: Iterable[str]) -> tuple[Thread, ...]:
    """The threads of a dump in its order: the main thread is the last one."""
    found: list[tuple[str, list[Frame]]] = []
    for line in lines:
        if _THREAD.fullmatch(line.strip()):
            found.append((line.strip(), []))
        elif found and (match := _FRAME.fullmatch(line)):
            found[-1][1].append(Frame(match["file"], match["line"], match["function"]))
    for _, frames in found:
        # Without the frames by which Bireme started the script: they are the outermost ones.
        while frames and frames[-1].is_ours:
            frames.pop()
    return tuple(Thread(title, tuple(frames)) for title, frames in found)


def place(frames: Sequence[Frame]) -> str:
    """Where a thread is, as a person says it: the innermost line of the user's own code."""
    chosen = next((frame for frame in frames if frame.is_the_users), frames[0] if frames else None)
    if chosen is None:
        return ""
    where = f"{os.path.basename(chosen.file)}:{chosen.line}"
    return where if chosen.function == "<module>" else f"{where} in {chosen.function}()"


def crash(lines: Sequence[str]) -> tuple[str, ...]:
    """The part of what a rank printed that says where its last crash was; nothing if it did not crash."""
    begins = [number for number, line in enumerate(lines) if line.startswith(_FATAL)]
    if not begins:
        return ()
    return tuple(
        line
        for line in lines[begins[-1] :]
        if (frame := _FRAME.fullmatch(line)) is None or not _OURS.search(frame["file"])
    )


def crash_place(lines: Sequence[str]) -> str:
    """Where the thread was that crashed; an empty text if the lines tell of none."""
    found = threads(crash(lines))
    current = next((thread for thread in found if thread.title.startswith("Current")), None)
    return place(current.frames) if current is not None else ""
