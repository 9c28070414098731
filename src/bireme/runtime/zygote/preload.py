"""Imports the modules that a zygote holds, and tells whether forking is safe and their files are unchanged.

Forking is safe as long as the parent has one thread, and as its modules are what a fresh import in the rank
would have made of them. So the import happens with the rank's variables absent and with OpenBLAS kept from
starting threads, and whatever starts a thread or asks for its rank meanwhile makes the zygote useless.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import importlib
import os
import sys
from dataclasses import dataclass
from typing import Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from .. import linux
from . import import_variables, zygote_state

# (path, inode, mtime in ns, size)
File = Tuple[str, int, int, int]

# These ask for their rank as they are imported; a forked rank tells them again: forked_child.retell_ranks.
RETOLD = (
    "lightning.fabric.utilities.rank_zero",
    "lightning_fabric.utilities.rank_zero",
    "torchmetrics.utilities.prints",
)

_TELLING = (".pth", ".dist-info", ".egg-info")


class Unforkable(Exception):
    """An import has made this process unfit to fork ranks."""

    def __init__(self, module: str, reason: str) -> None:
        super().__init__(module, reason)
        self.module = module
        self.reason = reason


@dataclass(frozen=True)
class Streams:
    """How this interpreter encodes its standard streams."""

    encoding: str
    errors: str


@dataclass(frozen=True)
class Preloaded:
    """What a zygote has to offer, fixed once its imports are done."""

    names: Tuple[str, ...]
    roots: Tuple[str, ...]  # those packages among them that no earlier one had brought along
    failed: Mapping[str, str]
    versions: Mapping[str, str]
    files: Tuple[File, ...]
    started: FrozenSet[str]  # modules of the bare interpreter
    modules: FrozenSet[str]  # all modules, the former included
    env: Mapping[str, str]  # the environment that the zygote was given
    reads: import_variables.ImportReads  # the variables that acted on the imports
    streams: Streams
    coerced: Optional[str]  # the LC_CTYPE that Python chose by itself, as it does in the C locale

    @property
    def fingerprint(self) -> str:
        content = repr((sys.version, sorted(self.versions.items()), self.files))
        return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()

    def changed(self) -> Optional[str]:
        """A file that was loaded and has changed or gone, or a package that is new; usually None."""
        for file in self.files:
            if _stat(file[0]) != file:
                return file[0]
        known = {file[0] for file in self.files}
        return next((path for path in _path_files() if path not in known), None)


def preload(names: Sequence[str], started: FrozenSet[str]) -> Preloaded:
    """Imports the modules; one that fails is noted, one that is unfit for forking raises Unforkable."""
    coerced = coerced_locale()
    env = {name: value for name, value in os.environ.items() if name != "LC_CTYPE" or coerced is None}
    streams = Streams(getattr(sys.stdout, "encoding", "utf-8"), getattr(sys.stdin, "errors", "strict"))
    for name in (*import_variables.RANK, "OMP_NUM_THREADS"):
        os.environ.pop(name, None)
    # OpenBLAS starts its threads when it is loaded. A rank gets as many as it would have had.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    failed: Dict[str, str] = {}
    roots = []
    with import_variables.Noting() as reads:
        for name in names:
            is_new = name not in sys.modules
            error = _import(name, reads)
            if error is not None:
                failed[name] = error
            elif is_new and "." not in name:
                roots.append(name)
    loaded = tuple(name for name in names if name not in failed)
    gc.collect()
    # What is loaded is never collected: a collection in a rank would write to, and so copy, every page of it.
    gc.freeze()
    # Only the allocator of glibc keeps what the imports had freed again until it is asked.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    paths = {sys.executable, *_path_files()}
    for module in list(sys.modules.values()):
        # Reading an attribute of a lazy module would import it, so its dictionary is read past its class.
        with contextlib.suppress(AttributeError):
            path = object.__getattribute__(module, "__dict__").get("__file__")
            if isinstance(path, str):
                paths.add(path)
    packages = {name.partition(".")[0] for name in loaded}
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in packages}
    return Preloaded(
        names=loaded,
        roots=tuple(roots),
        failed=failed,
        versions={name: str(version) for name, version in versions.items() if version is not None},
        files=tuple(file for file in map(_stat, sorted(paths)) if file is not None),
        started=started,
        modules=frozenset(sys.modules),
        env=env,
        reads=reads,
        streams=streams,
        coerced=coerced,
    )


def coerced_locale() -> Optional[str]:
    """The LC_CTYPE that this interpreter has put into its own environment, if it did."""
    value = os.environ.get("LC_CTYPE")
    return value if value and linux.AVAILABLE and linux.variable_of(os.getpid(), "LC_CTYPE") is None else None


def _import(name: str, reads: import_variables.ImportReads) -> Optional[str]:
    error = None
    try:
        importlib.import_module(name)
    except BaseException as problem:  # SystemExit too: a module may refuse in any way it likes
        error = f"{type(problem).__name__}: {problem}"
    count = linux.threads()
    if count is None:
        raise Unforkable(name, "threads cannot be counted on this system")
    if count != 1:
        raise Unforkable(name, f"importing it leaves {count - 1} more threads running")
    askers = [module or name for module in reads.askers if module not in RETOLD]
    if askers:
        raise Unforkable(name, f"{', '.join(askers)} asks for its rank while it is imported")
    return error


def _path_files() -> List[str]:
    """The .pth files, which add folders to sys.path when an interpreter starts, and what pip leaves of each
    package: a module that was imported without an optional package is another once that is installed."""
    found = []
    for folder in zygote_state.sites():
        try:
            found += [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_TELLING)]
        except OSError:
            continue
    return sorted(found)


def _stat(path: str) -> Optional[File]:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return (path, info.st_ino, info.st_mtime_ns, info.st_size)
