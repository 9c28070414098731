"""Where does everything lie: what is built once, and what belongs to one cluster."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


class ClusterError(Exception):
    """Says in a sentence what is missing or went wrong."""


class Missing(ClusterError):
    """Says what this machine lacks; nothing went wrong."""


def cache() -> Path:
    """Return the folder outside the checkout that holds what is built once."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "bireme", "testcluster")


@dataclass(frozen=True)
class Home:
    """The folder of one cluster."""

    name: str

    def __post_init__(self) -> None:
        # The name becomes part of cgroup names and paths.
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", self.name):
            raise ClusterError(f"{self.name!r} is no cluster name: use up to 32 of a-z, 0-9 and -")

    @property
    def folder(self) -> Path:
        return cache() / "clusters" / self.name

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def node(self, name: str) -> Path:
        return self.folder / "nodes" / name

    @property
    def lock(self) -> Path:
        return self.folder.with_suffix(".lock")

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Let one process at a time change the cluster."""
        return locked(self.lock)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process at the latest; whoever holds it may remove its file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with open(path, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # A lock on a file that was removed meanwhile keeps nobody out.
            if _is_at(path, file.fileno()):
                yield
                return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
