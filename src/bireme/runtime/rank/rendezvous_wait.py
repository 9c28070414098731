"""Makes a rank that is early wait for its master to listen, so that ranks meet without losing half a second.

Torch's store refuses to wait quietly. A rank that finds nothing listening at the master's port tries again
after a quarter to three quarters of a second, which is longer than a warm start and its first all-reduce
together. So when torch itself asks for that port in order to connect, it is answered once something listens.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType
    from typing import Iterator, Mapping, Optional

_ASKER = os.path.join("torch", "distributed", "rendezvous.py")
_NEAR = 5
"""How many callers up torch is found."""
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENS = "0A"
_PATIENCE = 30.0
_FIRST, _LONGEST = 0.001, 0.02


def before_answer(frame: Optional[FrameType], variables: Mapping[str, str]) -> None:
    """Waits if it is torch that asks, on behalf of a rank that has to connect to a master on this machine."""
    try:
        is_here = variables.get("MASTER_ADDR") in ("127.0.0.1", "localhost")
        if (
            is_here
            and variables.get("RANK") != "0"
            and any(caller.f_code.co_filename.endswith(_ASKER) for caller in callers(frame, _NEAR))
        ):
            await_listener(int(variables["MASTER_PORT"]))
    except Exception:
        return  # It was only to be quicker.


def callers(frame: Optional[FrameType], most: int) -> Iterator[FrameType]:
    """A frame and those that called it, the innermost first."""
    while frame is not None and most > 0:
        yield frame
        frame, most = frame.f_back, most - 1


def await_listener(port: int) -> None:
    """Returns once a process of this machine listens at the port, or when waiting has become pointless."""
    import time

    end = time.monotonic() + _PATIENCE
    pause = _FIRST
    while is_heard(port) is False and time.monotonic() < end:
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST)


def is_heard(port: int) -> Optional[bool]:
    """Whether a process listens at a port of this machine; None where the system does not tell."""
    suffix = f":{port:04X}"
    known = None
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        known = False
        for line in lines:
            fields = line.split()
            if fields[1].endswith(suffix) and fields[3] == _LISTENS:
                return True
    return known if sys.platform.startswith("linux") else None
