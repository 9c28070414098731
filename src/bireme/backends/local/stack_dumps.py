"""Asks a process where its Python code is: a signal, and what its interpreter writes in answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from bireme.runs.storage import files
from bireme.runtime.rank import fault_handler

PATIENCE = 5.0
"""Seconds for a rank to answer: it does so from a signal handler, unless the kernel does not let it."""
_SETTLED = 0.1
"""Seconds without another byte after which an answer counts as complete."""
_LOOK_EVERY = 0.02
_MOST = 1 << 20
_SPY_PATIENCE = 20.0


def ask(folder: Path, replica: str, pid: int) -> int | None:
    """Sends the signal and returns how long the file was before; None to a process that would die of it."""
    try:
        size = _file(folder, replica, pid).stat().st_size
        if not _expects(pid):
            return None
        os.kill(pid, fault_handler.SIGNAL)
    except OSError:
        return None
    return size


def answer(folder: Path, replica: str, pid: int, asked: int | None) -> tuple[list[str], str]:
    """The lines that `ask` was answered with, or why there are none."""
    if asked is None:
        return _spied(pid)
    lines = _written(_file(folder, replica, pid), asked)
    if lines:
        return lines, ""
    return [], f"it did not answer within {PATIENCE:.0f} s; the kernel has it in {_state(pid)}"


def _expects(pid: int) -> bool:
    """Whether a process has a handler: one that became another program has none, and would end."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (fault_handler.SIGNAL - 1) & 1)
    return False


def _written(path: Path, before: int) -> list[str]:
    """What was appended to a file, once nothing more comes."""
    seen, quiet = before, 0.0
    for _ in range(int(PATIENCE / _LOOK_EVERY)):
        size = path.stat().st_size
        quiet = quiet + _LOOK_EVERY if size == seen else 0.0
        seen = size
        if size > before and quiet >= _SETTLED:
            break
        time.sleep(_LOOK_EVERY)
    with open(files.opened(path), "rb") as file:
        file.seek(before)
        return file.read(_MOST).decode(errors="replace").splitlines()


def _spied(pid: int) -> tuple[list[str], str]:
    """The stack of a program that Bireme did not start itself, by py-spy if the user has it."""
    spy = shutil.which("py-spy")
    if spy is None:
        return [], (
            "its program was not started by Bireme's own start-up, so it cannot be asked; "
            f"`pip install py-spy` and `py-spy dump --pid {pid}` looks from outside"
        )
    try:
        done = subprocess.run(
            [spy, "dump", "--pid", str(pid)], capture_output=True, text=True, timeout=_SPY_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"py-spy: {error}"
    if done.returncode:
        return [], f"py-spy: {(done.stderr.strip() or 'failed').splitlines()[-1]}"
    return done.stdout.splitlines(), ""


def _state(pid: int) -> str:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        waits = Path(f"/proc/{pid}/wchan").read_text().strip("0 \n")
    except (OSError, IndexError):
        return "an unknown state"
    return f"state {state}" + (f" ({waits})" if waits else "")


def _file(folder: Path, replica: str, pid: int) -> Path:
    return folder / fault_handler.FOLDER / f"{replica}.{pid}"
