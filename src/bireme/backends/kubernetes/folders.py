"""Which files belong to a script: its folder without what the ignore rules leave out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes import ignoring
from bireme.backends.kubernetes.ignoring import Rule

REQUIREMENTS = "requirements.txt"
_MOST_FILES = 20_000


class File(Struct, frozen=True):
    """One file that is sent."""

    name: str
    """Relative to where the script will stand, with slashes."""
    path: Path
    size: int


class Folder(Struct, frozen=True):
    """A script's folder as it will be found in a replica."""

    root: Path
    files: tuple[File, ...]
    script: str
    """The script as it is called there; of a module its name."""
    requirements: str = ""
    """What it asks for, as a path among the files."""

    def holds(self, path: Path) -> bool:
        """Whether a file or a folder of this machine is sent, at least in part."""
        whole = os.path.abspath(path)
        return any(str(one.path) == whole or str(one.path).startswith(whole + os.sep) for one in self.files)


def of_script(script: str, cwd: Path) -> Folder:
    """The folder of a script: where it lies below the current folder, it lies there too in a replica."""
    path = cwd / script
    path = path if path.is_dir() else path.parent
    root, here = Path(os.path.abspath(path)), Path(os.path.abspath(cwd))
    if root == here or here in root.parents:
        prefix = root.relative_to(here).as_posix()
        called = os.path.relpath(os.path.abspath(cwd / script), here)
    else:
        prefix, called = ".", os.path.relpath(os.path.abspath(cwd / script), root)
    return _folder(root, prefix, Path(called).as_posix(), here)


def of_module(module: str, cwd: Path) -> Folder:
    """The current folder, from which `python -m` finds a module."""
    here = Path(os.path.abspath(cwd))
    return _folder(here, ".", module, here)


def _folder(root: Path, prefix: str, script: str, here: Path) -> Folder:
    files = tuple(
        File(name if prefix == "." else f"{prefix}/{name}", path, path.stat().st_size)
        for name, path in _walked(root, "", ignoring.rules(_rules_text(root)))
    )
    if len(files) > _MOST_FILES:
        raise errors.BadInput(
            f"{root} holds more than {_MOST_FILES} files", hint=f"leave some out in {root / '.biremeignore'}"
        )
    wanted = next((one.name for one in files if one.path == root / REQUIREMENTS), "")
    beside = here / REQUIREMENTS
    if not wanted and prefix != "." and beside.is_file():
        files = (*files, File(REQUIREMENTS, beside, beside.stat().st_size))
        wanted = REQUIREMENTS
    return Folder(root, files, script, wanted)


def _rules_text(root: Path) -> str:
    for name in ignoring.FILES:
        try:
            return (root / name).read_text(errors="replace")
        except OSError:
            continue
    return ""


def _walked(folder: Path, above: str, rules: tuple[Rule, ...]) -> Iterator[tuple[str, Path]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda one: one.name)
    except OSError as error:
        raise errors.NoAccess(f"{folder} cannot be read: {error.strerror}") from error
    for one in entries:
        name = f"{above}{one.name}"
        # A link to a folder may lead anywhere, and back here; a link to a file is that file.
        is_folder = one.is_dir(follow_symlinks=False)
        if ignoring.is_ignored(name, is_folder, rules) or _is_environment(Path(one.path), is_folder):
            continue
        if is_folder:
            yield from _walked(Path(one.path), f"{name}/", rules)
        elif one.is_file():
            yield name, Path(one.path)


def _is_environment(path: Path, is_folder: bool) -> bool:
    """Whether a folder is a virtual environment, whatever it is called."""
    return is_folder and (path / "pyvenv.cfg").is_file()
