"""What TensorBoard reads of a run: event files, one folder for each rank, kept current."""

from __future__ import annotations

import re
from pathlib import Path

from bireme.core.clock import Clock
from bireme.runs.metrics import tfevents
from bireme.runs.metrics.metric_reader import Feed, MetricSource
from bireme.runs.storage import files, locks

FOLDER = "tensorboard"
"""In the directory of a run."""

_FILE = "events.out.tfevents.{seconds}.bireme"
_OWN_FILE = re.compile(r"events\.out\.tfevents\.[0-9]+\.bireme")
_FOLDER_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,250}[a-z0-9])?")


def is_folder_name(source: str) -> bool:
    """Whether a source can have a folder: its name may come from the log of a pod."""
    return _FOLDER_NAME.fullmatch(source) is not None


class TensorboardWriter:
    """Writes event files of what was reported; of several boards of one run only one writes."""

    def __init__(self, folder: Path, clock: Clock, *feeds: Feed) -> None:
        self.folder = folder
        self._clock = clock
        self._feeds = feeds
        self._paths: dict[MetricSource, Path] = {}
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
        new: dict[MetricSource, list[bytes]] = {}
        for feed in self._feeds:
            for one in feed.poll():
                if is_folder_name(one.source.name) and (event := tfevents.encode(one.record)):
                    new.setdefault(one.source, []).append(event)
        for source, events in new.items():
            path = self._path(source)
            if path is None:
                continue
            with files.explained(path), path.open("ab") as file:
                file.write(b"".join(events))

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _path(self, source: MetricSource) -> Path | None:
        """The file of a source; None where its folder leads out of ours, for what is there is not ours."""
        if source not in self._paths:
            now = self._clock.time()
            path = self.folder / source.name / _FILE.format(seconds=int(now))
            with files.explained(path):
                path.parent.mkdir(exist_ok=True)
                if path.parent.resolve() != self.folder.resolve() / source.name:
                    return None
                # What an earlier board wrote is said anew, if it is said at all: the pods that said it may be
                # gone, and with them the only other copy.
                for old in path.parent.iterdir():
                    if _OWN_FILE.fullmatch(old.name):
                        old.unlink(missing_ok=True)
                with path.open("xb") as file:
                    file.write(tfevents.header(now))
            self._paths[source] = path
        return self._paths[source]
