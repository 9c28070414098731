"""How do tests use Bireme: as a person does, through its command, in a home of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.model.status import Status
from bireme.runs import directory
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.replica_journal import Entry, Ran

BIN = Path(sys.executable).parent
PATIENCE = 240.0


class Bireme:
    """The command in its own home, and a look at what it left behind."""

    def __init__(
        self, home: Path, folder: Path, within: tuple[str, ...] = (), seen_at: Path | None = None
    ) -> None:
        """`within` puts each command into another mount namespace, where `seen_at` is the home from here."""
        self.home = seen_at or home
        self.folder = folder
        self._words = [*within, str(BIN / "bireme")]
        self._shown = home
        path = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath)])
        self.environ = {**os.environ, "BIREME_HOME": str(home), "VIRTUAL_ENV": str(BIN.parent), "PATH": path}
        self.environ.pop("BIREME_RUN", None)
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        return subprocess.run(
            [*self._words, *words],
            cwd=self.folder,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Start the command and go on."""
        process = subprocess.Popen(
            [*self._words, *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, name: str) -> RunDirectory:
        return directory.find(self.home, name, None)

    def status(self, name: str) -> Status:
        return self.run(name).status()

    def ranks(self, name: str) -> dict[str, int]:
        """The process of each container that was started last, by its replica's uid."""
        journal: Journal[Entry] = Journal(self.run(name).journal_path, Entry)
        return {one.uid: one.pid for one in journal.read() if isinstance(one, Ran) and _is_alive(one.pid)}

    def was_warm(self, name: str) -> list[bool]:
        """Whether each rank of the newest run was forked from a warm interpreter."""
        journal: Journal[Entry] = Journal(self.run(name).journal_path, Entry)
        return [one.warm for one in journal.read() if isinstance(one, Ran)]

    def keepers(self, name: str) -> list[int]:
        """The guard and the runner of a run, the guard first: both live in the run's directory."""
        path = str(self._shown / self.run(name).path.relative_to(self.home))
        found = [pid for pid in _pids() if _link(pid, "cwd") == path and not _variable(pid, "BIREME_RUN_DIR")]
        return sorted(found, key=lambda pid: (os.getsid(pid) != pid, pid))

    def zygotes_in_the_making(self) -> list[int]:
        """Warm interpreters of this home that live, whether they answer yet or not."""
        return [pid for pid in _pids() if f"{self._shown}/zygotes" in _command(pid)]

    def leftovers(self) -> list[int]:
        """Every process that belongs to a run of this home."""
        return [
            pid for pid in _pids() if (_variable(pid, "BIREME_RUN_DIR") or "").startswith(str(self._shown))
        ]

    def close(self) -> None:
        """End everything that a test may have left."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        if runs := [str(run.id) for run in directory.every(self.home)]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self("rm", "--yes", *runs)
        ZygotePool(self.home).end()


@contextlib.contextmanager
def bireme_in(folder: Path, within: tuple[str, ...] = (), seen_at: Path | None = None) -> Iterator[Bireme]:
    """A home and a working folder below this one; at the end nothing may be left alive."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    command = Bireme(folder / "home", work, within, seen_at)
    try:
        yield command
    finally:
        command.close()
    until(lambda: not command.leftovers(), "no process of the test is left")


def until(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait for a condition, and fail in its own words if it does not come true."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"waited {patience:.0f} s in vain until {what}"
        time.sleep(0.02)


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def json_of(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    return msgspec.json.decode(done.stdout, type=dict[str, object])


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and int(name) != os.getpid()]


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace") if _is_alive(pid) else ""
    except OSError:
        return ""


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}") if _is_alive(pid) else ""
    except OSError:
        return ""


def _variable(pid: int, name: str) -> str | None:
    try:
        content = Path(f"/proc/{pid}/environ").read_bytes() if _is_alive(pid) else b""
    except OSError:
        return None
    for one in content.split(b"\0"):
        if one.startswith(name.encode() + b"="):
            return os.fsdecode(one.partition(b"=")[2])
    return None
