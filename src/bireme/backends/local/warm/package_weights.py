"""Tells from the files of installed packages which of them take long to import, and which ones others need.

An estimate by the number of modules and the size of compiled code: a package that is known to be slow before
it was ever measured can be made warm the first time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from bireme.runs.storage import files

_HEAVY = 10 << 20
"""Bytes of compiled code from which on a package takes long to import."""
_MODULE = 100 << 10
"""The bytes that one module in Python counts as: a hundred modules are heavy."""
_MOST_ENTRIES = 4000
_MOST_DISTRIBUTIONS = 500
_MOST_METADATA = 1 << 20
_REQUIRED = re.compile(r"Requires-Dist:\s*([A-Za-z0-9][A-Za-z0-9._-]*)(.*)")


def heavy(packages: Iterable[str], sites: Sequence[str]) -> tuple[str, ...]:
    """Those packages that take long to import, the heaviest first."""
    weights = {package: _weight(package, sites) for package in packages}
    return tuple(sorted((p for p in weights if weights[p] >= _HEAVY), key=lambda p: (-weights[p], p)))


def required(packages: Iterable[str], sites: Sequence[str]) -> frozenset[str]:
    """The packages that these need according to their metadata, and so on; extras are left out."""
    metadata: dict[str, str] = {}
    for site in sites:
        with suppress(OSError):
            for entry in os.listdir(site):
                if entry.endswith(".dist-info"):
                    name = _normal(entry.partition("-")[0])
                    metadata.setdefault(name, os.path.join(site, entry, "METADATA"))
    found: set[str] = set()
    todo = [_normal(package) for package in packages]
    while todo and len(found) < _MOST_DISTRIBUTIONS:
        head = ""
        if path := metadata.get(todo.pop()):
            with suppress(OSError):
                head = files.read(path, _MOST_METADATA).decode(errors="replace").partition("\n\n")[0]
        for match in filter(None, map(_REQUIRED.match, head.splitlines())):
            need = _normal(match[1])
            if "extra" not in match[2].partition(";")[2] and need not in found:
                found.add(need)
                todo.append(need)
    return frozenset(found)


def _weight(package: str, sites: Sequence[str]) -> int:
    """Bytes of code, as far as it was counted."""
    folder = next((path for site in sites if os.path.isdir(path := os.path.join(site, package))), None)
    if folder is None:
        return 0
    weight = entries = 0
    # Level by level: where a large package is cut short, its libraries near the top have been seen.
    folders = [folder]
    for place in folders:
        with suppress(OSError), os.scandir(place) as listing:
            for entry in listing:
                entries += 1
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".py"):
                    weight += _MODULE
                elif entry.name.endswith(".so") or ".so." in entry.name:
                    weight += entry.stat().st_size
        if entries > _MOST_ENTRIES:
            break
    return weight


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
