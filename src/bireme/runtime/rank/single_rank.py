"""A rank that has no others looks to Lightning as under plain `python`, so that Lightning starts its own.

A script that was written for torchrun reads its variables, also where there is one rank. Lightning takes the
same variables for a promise that something else starts all of its processes, and refuses `devices=2`. So they
stay until Lightning itself asks who has launched the script, and are gone from then on: the processes that
it starts would else take this rank's number for theirs.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType
    from typing import Dict, Optional

ASKED = b"TORCHELASTIC_RUN_ID"
"""What tells, by being there, that torchrun has launched a process."""

_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_OF_TORCHRUN = (
    *(b"RANK", b"WORLD_SIZE", b"LOCAL_RANK", b"LOCAL_WORLD_SIZE", b"MASTER_ADDR", b"MASTER_PORT"),
    *(b"GROUP_RANK", b"GROUP_WORLD_SIZE", b"ROLE_NAME", b"ROLE_RANK", b"ROLE_WORLD_SIZE"),
)
_ELASTIC = b"TORCHELASTIC_"
_NEAR = 8
"""How many callers up Lightning is found, behind torch and `os`."""


def before_answer(frame: Optional[FrameType], variables: Dict[bytes, bytes]) -> None:
    """Takes torchrun's variables away if it is Lightning that asks for them in the only rank of a job."""
    try:
        if dict.get(variables, b"WORLD_SIZE") != b"1" or not _is_lightning(frame):
            return
        for name in [one for one in variables if one in _OF_TORCHRUN or one.startswith(_ELASTIC)]:
            dict.pop(variables, name, None)
            os.unsetenv(name)
    except Exception:
        return  # It is answered as it would be without us.


def _is_lightning(frame: Optional[FrameType]) -> bool:
    for _ in range(_NEAR):
        if frame is None:
            return False
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _LIGHTNING:
            return True
        frame = frame.f_back
    return False
