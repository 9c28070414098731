"""Finds paths of this machine in the text of a script: it would not find those files in a cluster."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from bireme.backends.kubernetes.submit.script_folder import ScriptFolder

_LONGEST = 300
_EVERYWHERE = ("/dev", "/proc", "/sys", "/tmp", "/usr", "/bin", "/lib", "/lib64", "/etc", "/sbin")
"""Folders that an image has as well."""
_NOT_DATA = (".", "..", "/", "~")


class Mention(Struct, frozen=True):
    """A path that a script or its arguments name, which is here and is not sent."""

    written: str
    path: Path
    line: int = 0
    """In the script; 0 for an argument."""


def mentions(script: Path, args: Iterable[str], folder: ScriptFolder, cwd: Path) -> list[Mention]:
    """The files and folders that exist here, are named, and will be missing there; each once."""
    found: dict[str, Mention] = {}
    words = [*_literals(script), *((word, 0) for arg in args for word in (arg, arg.partition("=")[2]))]
    for written, line in words:
        path = _existing(written, cwd)
        if path is None or written in found:
            continue
        # An absolute path leads nowhere in a cluster, even to a file that is sent.
        if os.path.isabs(os.path.expanduser(written)) or not folder.holds(path):
            found[written] = Mention(written, path, line)
    return list(found.values())


def _literals(script: Path) -> Iterator[tuple[str, int]]:
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value, node.lineno


def _existing(written: str, cwd: Path) -> Path | None:
    """The file or folder of this machine that a text names, if it looks like a path and is one."""
    if not written or len(written) > _LONGEST or written in _NOT_DATA or "\n" in written or "\0" in written:
        return None
    path = Path(os.path.abspath(cwd / os.path.expanduser(written)))
    if os.path.isabs(written) and written.startswith(tuple(f"{folder}/" for folder in _EVERYWHERE)):
        return None
    if path == Path(os.path.abspath(cwd)) or path in Path(os.path.abspath(cwd)).parents:
        return None
    try:
        return path if path.exists() else None
    except OSError:
        return None
