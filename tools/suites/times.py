"""How long suites took the last time they passed here, kept between checkouts."""

from __future__ import annotations

import json
import os
from pathlib import Path


class Times:
    def __init__(self, path: Path, seconds: dict[str, float]) -> None:
        self._path, self._seconds = path, seconds

    @classmethod
    def read(cls, path: Path) -> Times:
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError):
            found = {}
        seconds = found if isinstance(found, dict) else {}
        return cls(path, {key: value for key, value in seconds.items() if isinstance(value, int | float)})

    def suite(self, name: str) -> float | None:
        return self._seconds.get(name)

    def plan(self, title: str) -> float | None:
        return self._seconds.get(title)

    def note(self, name: str, seconds: float) -> None:
        self._seconds[name] = round(seconds, 1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(self._seconds, indent=1, sort_keys=True) + "\n")
        fresh.replace(self._path)


def clock(seconds: float) -> str:
    """`48 s`, or `12 min 5 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
