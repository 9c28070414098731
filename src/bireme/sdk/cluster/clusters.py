"""Remembers in which clusters this user has started jobs, so that verbs find them by name."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bireme.model.decode_errors import DAMAGED
from bireme.runs.storage import files

FILE = "clusters.json"
_MOST_PLACES = 8
_MOST_NAMES = 500


class Known(Struct, frozen=True):
    """A namespace of a cluster, and the jobs that were started there."""

    context: str
    namespace: str
    kubeconfig: str = ""
    """What KUBECONFIG said then; empty for the usual file."""
    names: tuple[str, ...] = ()
    """The newest first."""

    def is_same(self, other: Known) -> bool:
        return (self.context, self.namespace, self.kubeconfig) == (
            other.context,
            other.namespace,
            other.kubeconfig,
        )

    @property
    def is_lost(self) -> bool:
        """Whether the files that said how to reach the cluster are gone, as after its end."""
        files = [file for file in self.kubeconfig.split(os.pathsep) if file]
        return bool(files) and not any(os.path.exists(file) for file in files)

    @property
    def where(self) -> str:
        return f"{self.context}/{self.namespace}"


class Book:
    """The clusters of a home, the one used last first. What cannot be read counts as empty."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def read(self) -> tuple[Known, ...]:
        try:
            return msgspec.json.decode(files.read(self._path), type=tuple[Known, ...])
        except (OSError, *DAMAGED):
            return ()

    def note(self, place: Known, name: str) -> None:
        """Remembers that a job was started in a place."""
        before = next((known for known in self.read() if known.is_same(place)), place)
        names = (name, *(other for other in before.names if other != name))[:_MOST_NAMES]
        others = [known for known in self.read() if not known.is_same(place)]
        self._write((replace(place, names=names), *others)[:_MOST_PLACES])

    def forget(self, place: Known, name: str) -> None:
        """Forgets a job that is gone."""
        self._write(
            tuple(
                replace(known, names=tuple(each for each in known.names if each != name))
                if known.is_same(place)
                else known
                for known in self.read()
            )
        )

    def drop(self, place: Known) -> None:
        """Forgets a cluster that no kubeconfig knows any more."""
        self._write(tuple(known for known in self.read() if not known.is_same(place)))

    def _write(self, places: tuple[Known, ...]) -> None:
        if places != self.read():
            files.replace_quickly(self._path, msgspec.json.encode(places))
