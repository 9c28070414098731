"""Finds the files that belong to a script: its folder without what the ignore rules leave out.

The rules are those of git: of the repository, and of every folder from its root down.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes.submit import gitignore
from bireme.backends.kubernetes.submit.gitignore import Rules

REQUIREMENTS = "requirements.txt"
_MOST_FILES = 20_000


class SentFile(Struct, frozen=True):
    """One file that is sent."""

    name: str
    """Relative to where the script will stand, with slashes."""
    path: Path
    size: int


class ScriptFolder(Struct, frozen=True):
    """A script's folder as it will be found in a replica."""

    root: Path
    files: tuple[SentFile, ...]
    script: str
    """The script as it is called there; of a module its name."""
    requirements: str = ""
    """What it asks for, as a path among the files."""
    left_out: tuple[str, ...] = ()
    """What the ignore files leave out, relative to the root; of a folder only its own name."""
    secrets: tuple[str, ...] = ()
    """What is never sent because it looks like a key or like credentials."""

    def holds(self, path: Path) -> bool:
        """Whether a file or a folder of this machine is sent, at least in part."""
        whole = os.path.abspath(path)
        return any(
            str(file.path) == whole or str(file.path).startswith(whole + os.sep) for file in self.files
        )


def of_script(script: str, cwd: Path) -> ScriptFolder:
    """The folder of a script: where it lies below the current folder, it lies there too in a replica."""
    whole = Path(os.path.abspath(cwd / script))
    path = cwd / script
    path = path if path.is_dir() else path.parent
    root, here = Path(os.path.abspath(path)), Path(os.path.abspath(cwd))
    if root == here or here in root.parents:
        prefix = root.relative_to(here).as_posix()
        called = os.path.relpath(whole, here)
    else:
        prefix, called = ".", os.path.relpath(whole, root)
    return _folder(root, prefix, Path(called).as_posix(), here, whole)


def of_module(module: str, cwd: Path) -> ScriptFolder:
    """The current folder, from which `python -m` finds a module."""
    here = Path(os.path.abspath(cwd))
    return _folder(here, ".", module, here, None)


def _folder(root: Path, prefix: str, script: str, here: Path, named: Path | None) -> ScriptFolder:
    walk = _Walk(root, here, named)
    walk.enter(root, "", _rules_above(walk.real, walk.top))
    files = tuple(
        SentFile(name if prefix == "." else f"{prefix}/{name}", path, path.stat().st_size)
        for name, path in walk.files
    )
    if named is not None and named.is_file() and all(file.path != named for file in files):
        raise errors.BadInput(
            f"{named} has the name of a key or of credentials, which are not sent to a cluster",
            hint="give the script another name",
        )
    wanted = next((file.name for file in files if file.path == root / REQUIREMENTS), "")
    beside = here / REQUIREMENTS
    if not wanted and prefix != "." and beside.is_file() and not _leads_to_secret(beside, here):
        files = (*files, SentFile(REQUIREMENTS, beside, beside.stat().st_size))
        wanted = REQUIREMENTS
    return ScriptFolder(root, files, script, wanted, tuple(walk.left_out), tuple(walk.secrets))


class _Walk:
    """Goes through a folder, and notes what is sent and what is not."""

    def __init__(self, root: Path, here: Path, named: Path | None) -> None:
        self.real = Path(os.path.realpath(root))
        above = (self.real, *self.real.parents)
        repository = next((folder for folder in above if os.path.lexists(folder / ".git")), None)
        # Outside of a repository the rules begin where the user stands.
        around = Path(os.path.realpath(here))
        self.top = repository or (around if around in self.real.parents else self.real)
        self._prefix = _below(self.real, self.top)
        self._named = named
        self._root, self._ignored_by = root, root / ".biremeignore"
        self.files: list[tuple[str, Path]] = []
        self.left_out: list[str] = []
        self.secrets: list[str] = []

    def enter(self, folder: Path, above: str, rules: tuple[Rules, ...]) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            raise errors.NoAccess(
                f"{folder} cannot be read: {error.strerror}", hint=f"leave it out in {self._ignored_by}"
            ) from error
        for entry in entries:
            # A link to a folder may lead anywhere, and back here; a link to a file is that file.
            is_folder = entry.is_dir(follow_symlinks=False)
            path, name = Path(entry.path), f"{above}{entry.name}"
            if not self._is_sent(path, name, is_folder, rules):
                continue
            if is_folder:
                deeper = _rules_of(path, self._prefix + os.fsencode(f"{name}/"))
                self.enter(path, f"{name}/", (*rules, *deeper))
            elif _is_file(entry):
                if len(self.files) == _MOST_FILES:
                    # At once: all of a home folder, or of /tmp, would take minutes.
                    raise errors.BadInput(
                        f"{self._root} holds more than {_MOST_FILES} files, all of which would be sent",
                        hint="move the script into a folder of its own, "
                        f"or leave some out in {self._ignored_by}",
                    )
                self.files.append((name, path))

    def _is_sent(self, path: Path, name: str, is_folder: bool, rules: tuple[Rules, ...]) -> bool:
        shown = f"{name}/" if is_folder else name
        if gitignore.is_secret(os.fsencode(name), is_folder) or _leads_to_secret(path, self.real):
            self.secrets.append(shown)
            return False
        if path == self._named:
            return True  # the user named it, whatever the rules say
        if is_folder and (path / "pyvenv.cfg").is_file():
            return False  # a virtual environment, whatever it is called
        whole = self._prefix + os.fsencode(name)
        if not gitignore.is_ignored(whole, is_folder, rules):
            return True
        if not gitignore.is_ignored(whole, is_folder, (_ALWAYS,)):
            self.left_out.append(shown)
        return False


_ALWAYS = gitignore.rules(gitignore.ALWAYS)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file, or a link to one; a link to itself is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _rules_above(root: Path, top: Path) -> tuple[Rules, ...]:
    """The rules that hold in a folder, the weakest first: ours, the repository's, then from its root down."""
    chain = [folder for folder in (*reversed(root.parents), root) if folder == top or top in folder.parents]
    excluded = [_git_folder(top) / "info" / "exclude"]
    if os.path.lexists(top / ".git"):
        excluded.insert(0, _personal())
    everywhere = (gitignore.rules(_read(file)) for file in excluded)
    return (
        _ALWAYS,
        *everywhere,
        *(rules for folder in chain for rules in _rules_of(folder, _below(folder, top))),
    )


def _rules_of(folder: Path, base: bytes) -> tuple[Rules, ...]:
    return tuple(gitignore.rules(text, base) for name in gitignore.FILES if (text := _read(folder / name)))


def _below(folder: Path, top: Path) -> bytes:
    return b"" if folder == top else os.fsencode(folder.relative_to(top).as_posix()) + b"/"


def _git_folder(top: Path) -> Path:
    """Where a repository keeps its own files: elsewhere for a submodule and for a further working tree."""
    found = top / ".git"
    if not found.is_file():
        return found
    folder = top / os.fsdecode(_read(found).partition(b"gitdir:")[2].strip())
    common = _read(folder / "commondir").strip()
    return folder / os.fsdecode(common) if common else folder


def _personal() -> Path:
    """The ignore file of the user for all repositories: git's setting `core.excludesFile`, or its default."""
    home = Path(os.path.expanduser("~"))
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    found = settings / "ignore"
    for config in (settings / "config", home / ".gitconfig"):
        section = b""
        for line in _read(config).splitlines():
            name, mark, value = line.strip().partition(b"=")
            if name.startswith(b"["):
                section = name.rstrip(b"] \t").lstrip(b"[ \t").lower()
            elif mark and section == b"core" and name.strip().lower() == b"excludesfile":
                found = home / os.path.expanduser(os.fsdecode(value.strip().strip(b'"')))
    return found


def _read(path: Path) -> bytes:
    """What a file of rules says; nothing if there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return b""
    except OSError as error:
        # Without its rules something would be sent that is not meant to be.
        raise errors.NoAccess(f"{path} cannot be read: {error.strerror}") from error


def _leads_to_secret(path: Path, root: Path) -> bool:
    """Whether a link leads to what looks like a secret, under whatever name."""
    if not path.is_symlink():
        return False
    target = Path(os.path.realpath(path))
    below = target.relative_to(root) if root in target.parents else target.relative_to(target.anchor)
    folders = (folder for folder in below.parents if folder != Path())
    return gitignore.is_secret(os.fsencode(below), False) or any(
        gitignore.is_secret(os.fsencode(folder), True) for folder in folders
    )
