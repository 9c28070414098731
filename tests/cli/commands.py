"""How do tests use the command line: real processes, with a home and a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
"""Seconds that anything may take on a loaded machine."""

WORDS = (sys.executable, "-m", "bireme.cli")


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Cli:
    """Bireme with a home and a working folder that nobody else uses."""

    home: Path
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "BIREME_HOME": str(self.home), "VIRTUAL_ENV": sys.prefix, "TERM": "xterm"}

    def __call__(self, *words: str, stdin: str = "", **environ: str) -> Done:
        """Runs a command to its end."""
        ended = subprocess.run(
            [*WORDS, *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        # Only a job that failed may show a traceback: its user's.
        assert "Traceback" not in ended.stderr or ended.returncode == 1, ended.stderr
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts a command without a terminal, and goes on; its words go to a pipe."""
        return subprocess.Popen(
            [*WORDS, *words],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def detached(self, script: str, *options: str) -> str:
        """Starts a script and returns the id of its job."""
        done = self("run", script, "--detach", *options)
        assert done.status == 0, done.err
        return done.out.strip()

    def write(self, name: str, content: str) -> str:
        """Puts a file into the working folder and returns its name."""
        (self.folder / name).write_text(textwrap.dedent(content).lstrip())
        return name

    def runs(self) -> list[str]:
        """The ids of all runs, from the folders alone."""
        folder = self.home / "runs"
        if not folder.is_dir():
            return []
        return sorted(
            f"{name.name}#{number.name}"
            for name in folder.iterdir()
            if not name.name.startswith(".")
            for number in name.iterdir()
            if number.name.isdecimal()
        )


def until(what: str, holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Waits for a condition, and fails with its name if it never holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"still not so after {patience:g} s: {what}"
        time.sleep(0.02)


def left_alive(home: Path) -> list[str]:
    """The processes that carry the mark of a run in this home."""
    sign = f"BIREME_RUN_DIR={home}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if sign in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found
