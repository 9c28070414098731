"""What TensorBoard reads of a run: event files, one folder for each rank, kept current."""

from __future__ import annotations

import time
from pathlib import Path

from bireme.runs import files, locks, tfevents
from bireme.runs.metrics import Feed, Source

FOLDER = "tensorboard"
"""In the directory of a run."""

_FILE = "events.out.tfevents.{seconds}.bireme"


class Board:
    """Writes event files of what was reported; of several boards of one run only one writes."""

    def __init__(self, folder: Path, *feeds: Feed) -> None:
        self.folder = folder
        self._feeds = feeds
        self._paths: dict[Source, Path] = {}
        with files.explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock = locks.hold(folder / "lock")

    @property
    def is_ours(self) -> bool:
        """Whether this one writes; otherwise another process does."""
        return self._lock is not None

    def is_empty(self) -> bool:
        """Whether nothing was reported yet."""
        return not any(self.folder.glob("*/*tfevents*"))

    def refresh(self) -> None:
        """Adds what was reported since the last time."""
        if self._lock is None:
            return
        new: dict[Source, list[bytes]] = {}
        for feed in self._feeds:
            for one in feed.poll():
                if event := tfevents.encode(one.record):
                    new.setdefault(one.source, []).append(event)
        for source, events in new.items():
            path = self._path(source)
            with files.explained(path), path.open("ab") as file:
                file.write(b"".join(events))

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _path(self, source: Source) -> Path:
        if source not in self._paths:
            now = time.time()
            path = self.folder / source.name / _FILE.format(seconds=int(now))
            with files.explained(path):
                path.parent.mkdir(exist_ok=True)
                # What an earlier board wrote is said anew, if it is said at all: the pods that said it may be
                # gone, and with them the only other copy.
                for old in path.parent.glob("*tfevents*"):
                    old.unlink(missing_ok=True)
                path.write_bytes(tfevents.header(now))
            self._paths[source] = path
        return self._paths[source]
