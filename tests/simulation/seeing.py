"""Finds what a backend changes while it only looks: nothing may be written below its `see`."""

from __future__ import annotations

import os
import sys
from types import FrameType

from bireme.backends.kubernetes.pod_backend import ClusterBackend
from bireme.backends.local.backend import LocalBackend
from tests.simulation.rules import need

_SEES = {LocalBackend.see.__code__, ClusterBackend.see.__code__}
_CHANGES = {
    "os.chmod",
    "os.chown",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.killpg",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
    "os.utime",
    "subprocess.Popen",
}
"""What the interpreter tells of, beside the opening of files."""
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC


def is_seeing() -> bool:
    """Whether `see` of a backend is among the callers; an await keeps who awaits on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code in _SEES:
            return True
        frame = frame.f_back
    return False


def need_to_act(what: str) -> None:
    """Break the rule unless it is an action that is carried out now."""
    need(not is_seeing(), f"{what} while it only looks")


def watch_this_process() -> None:
    """Have the interpreter itself tell of what is changed, past every layer; this cannot be taken back."""
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open":
        flags = arguments[2]
        if isinstance(flags, int) and flags & _TO_WRITE:
            need_to_act(f"{arguments[0]} is opened to be written")
    elif event in _CHANGES:
        need_to_act(f"{event}{arguments}")
