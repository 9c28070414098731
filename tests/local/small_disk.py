"""A small file system that a test fills and empties, in a mount namespace that ends with the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.harness import until

_CHUNK = b"x" * 4096


class Disk:
    """A tmpfs that only the processes see which are started through `within`."""

    def __init__(self, mounted: Path, keeper: int) -> None:
        self.mounted = mounted
        self.within = ("nsenter", f"--mount=/proc/{keeper}/ns/mnt", "--wd=.", "--")
        self.path = Path(f"/proc/{keeper}/root{mounted}")
        """The same folder as it is reached from outside."""

    def fill(self) -> None:
        """Leave not a byte free."""
        with open(self.path / "ballast", "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(_CHUNK)
        assert self.is_full

    def shrink(self, room: int) -> None:
        """Leave so many bytes free."""
        ballast = self.path / "ballast"
        os.truncate(ballast, ballast.stat().st_size - room)

    def empty(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    @property
    def is_full(self) -> bool:
        return os.statvfs(self.path).f_bavail == 0


@contextlib.contextmanager
def small_disk(folder: Path, size: str = "8m") -> Iterator[Disk]:
    """Mount a disk of that size at the folder; skips the test where nothing can be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in ("unshare", "nsenter", "mount") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"a small disk needs root and unshare, nsenter, mount; missing: {missing or 'root'}")
    script = f'mount -t tmpfs -o size={size} none "{folder}" && echo ready && exec cat'
    keeper = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        if keeper.stdout.readline() != b"ready\n":
            pytest.skip(f"a small disk cannot be mounted: {keeper.stderr.read().decode().strip()}")
        yield Disk(folder, keeper.pid)
    finally:
        keeper.communicate()
    until(lambda: keeper.returncode is not None, "the keeper of the disk has ended")
