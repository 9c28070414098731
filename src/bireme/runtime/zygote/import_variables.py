"""Notes which variables are read while modules are imported: a zygote serves only ranks that agree in them.

Reads by compiled code are not seen here; wire.at_import lists what is known of those. A module that walks
through the whole environment, to copy it for a program or to pick its own settings, does not make every
variable count: then those count whose names begin with the name of a package that is at it (TQDM_DISABLE).
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import ItemsView
from types import FrameType
from typing import Any, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Set, Tuple

from .. import wire
from ..rank import environment_reads

# What an environment says of each name, as a checksum; None where it has no such variable.
Digests = Dict[str, Optional[str]]

# The standard library, and this runtime.
_NOT_THIRD = (
    os.path.dirname(os.path.abspath(os.__file__)) + os.sep,
    "<frozen",
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)
_VIEWS = ItemsView.__iter__.__code__.co_filename
# What a rank gets of its own, or anew with each attempt: no zygote can have it, so none may ask at import.
RANK = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG")


class ImportReads:
    """What was read so far."""

    def __init__(self, names: Iterable[str] = (), prefixes: Iterable[str] = ()) -> None:
        self.names: Set[str] = set(names)
        self.prefixes: Set[str] = set(prefixes)
        self.askers: List[str] = []  # modules that asked for their rank, or "" for none that is known
        # dict() takes all names first, then asks for the value of each, in the same order and call.
        self._walked: Deque[str] = deque()
        self._walker: object = None

    def read(self, name: str, frame: FrameType) -> None:
        if frame.f_code.co_filename == _VIEWS and frame.f_code.co_name == "__iter__":
            return  # by items() or values(), which ask for each value as they come to its name
        if self._walked and self._walked[0] == name and _call(frame) == self._walker:
            self._walked.popleft()
            return
        self._walked.clear()
        if name in RANK:
            asker = environment_reads.third_party_import(frame) or ""
            if asker not in self.askers:
                self.askers.append(asker)
        elif not wire.is_set_later(name):
            self.names.add(name)

    def walk(self, caller: FrameType, names: Iterator[Any]) -> Iterator[Any]:
        """Follows a walk through all names. Any: text or bytes."""
        frame: Optional[FrameType] = caller
        while frame is not None and frame.f_code.co_filename == _VIEWS:
            frame = frame.f_back
        self._walker = _call(frame) if frame is not None else None
        self._walked.clear()
        while frame is not None:
            name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            path = frame.f_code.co_filename
            if name and (
                any(site in path for site in environment_reads.SITE) or not path.startswith(_NOT_THIRD)
            ):
                self.prefixes.add(name.upper() + "_")
            frame = frame.f_back

        def followed() -> Iterator[Any]:
            for name in names:
                self._walked.append(os.fsdecode(name))
                yield name

        return followed()

    def relevant(self, env: Mapping[str, str]) -> Digests:
        """What an environment says of all that was read; equal for two that agree in it."""
        found: Digests = {name: _digest(env.get(name)) for name in self.names}
        for name, value in env.items():
            if name.startswith(tuple(self.prefixes)) and not wire.is_set_later(name):
                found[name] = _digest(value)
        return found

    def content(self, env: Mapping[str, str]) -> Dict[str, object]:
        """All of it as JSON for runners, with what the environment of the zygote says of it."""
        return {
            "names": sorted(self.names),
            "prefixes": sorted(self.prefixes),
            "values": self.relevant(env),
        }

    def differing(self, ours: Mapping[str, str], theirs: Mapping[str, str]) -> List[str]:
        """The names of what was read in which two environments differ."""
        left, right = self.relevant(ours), self.relevant(theirs)
        return sorted(name for name in {*left, *right} if left.get(name) != right.get(name))


class Noting:
    """Notes reads of the environment for as long as it is entered."""

    def __init__(self) -> None:
        self._reads = ImportReads()
        self._watch = environment_reads.EnvironmentWatch(self._reads.read, on_walk=self._reads.walk)

    def __enter__(self) -> ImportReads:
        self._watch.install()
        return self._reads

    def __exit__(self, *_: object) -> None:
        self._watch.remove()


def _call(frame: FrameType) -> Tuple[int, int]:
    return id(frame), frame.f_lasti


def _digest(value: Optional[str]) -> Optional[str]:
    if value is None:
        return None
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()
