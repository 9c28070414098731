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
        # A process that became another program has no handler, and the signal would end it.
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:") and int(line.split()[1], 16) >> (fault_handler.SIGNAL - 1) & 1:
                os.kill(pid, fault_handler.SIGNAL)
                return size
    except OSError:
        pass
    return None


def answer(folder: Path, replica: str, pid: int, asked: int | None) -> tuple[list[str], str]:
    """The lines that `ask` was answered with, or why there are none."""
    if asked is None:
        return _spied(pid)
    path = _file(folder, replica, pid)
    # The interpreter writes line by line: the answer is complete once nothing more comes.
    seen, quiet = asked, 0.0
    for _ in range(int(PATIENCE / _LOOK_EVERY)):
        size = path.stat().st_size
        quiet = quiet + _LOOK_EVERY if size == seen else 0.0
        seen = size
        if size > asked and quiet >= _SETTLED:
            break
        time.sleep(_LOOK_EVERY)
    with open(files.opened(path), "rb") as file:
        file.seek(asked)
        if lines := file.read(_MOST).decode(errors="replace").splitlines():
            return lines, ""
    try:
        state = "state " + Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        waits = Path(f"/proc/{pid}/wchan").read_text().strip("0 \n")
        state += f" ({waits})" if waits else ""
    except (OSError, IndexError):
        state = "an unknown state"
    return [], f"it did not answer within {PATIENCE:.0f} s; the kernel has it in {state}"


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


def _file(folder: Path, replica: str, pid: int) -> Path:
    return folder / fault_handler.FOLDER / f"{replica}.{pid}"
