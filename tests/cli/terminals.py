"""How do tests sit at a terminal: a pseudo-terminal whose other end they type into and read from."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from types import TracebackType

from tests.cli.commands import PATIENCE, WORDS, Cli

CTRL_C = b"\x03"
CTRL_D = b"\x04"


class Terminal:
    """A command that believes to be at a terminal."""

    def __init__(
        self, cli: Cli, *words: str, columns: int = 80, program: tuple[str, ...] = WORDS, **environ: str
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process = subprocess.Popen(
            [*program, *words],
            cwd=cli.folder,
            env={**cli.environ, **environ},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # The terminal is to be the controlling one, so that it turns Ctrl-C into a signal.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.shown = ""

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def expect(self, words: str) -> None:
        """Reads until the words have been shown."""
        end = time.monotonic() + PATIENCE
        while words not in self.shown:
            assert time.monotonic() < end, f"{words!r} was not shown:\n{self.shown}"
            self._read(0.1)

    def ended(self, patience: float = PATIENCE) -> int:
        """Reads on until the command has ended, and returns its status."""
        end = time.monotonic() + patience
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not end:\n{self.shown}"
            self._read(0.1)
        self._read(0.1)
        return self.process.returncode

    def close(self) -> None:
        """Closes the window, as a user does."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def _read(self, patience: float) -> None:
        if select.select([self._master], [], [], patience)[0]:
            try:
                self.shown += os.read(self._master, 65536).decode(errors="replace").replace("\r\n", "\n")
            except OSError:  # the other end is closed
                time.sleep(patience)
