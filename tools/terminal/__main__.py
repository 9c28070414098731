"""Films a job of which a rank is killed, in a real terminal, and writes docs/terminal.svg.

    python -m tools.terminal

Every line of the picture is a command or was printed by one of them. The kill is a real SIGKILL, sent in the
middle of an epoch. The last command shows how the same script ends without a kill.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

from tools.terminal.drawing import svg

from bireme import Client

ROOT = Path(__file__).resolve().parents[2]
RUN = "bireme run examples/pytorch-resume/train.py --workers 2"
KILL_AFTER = "epoch 4/"
INTO_THE_EPOCH = 0.3
"""Seconds after that line, so that the rank dies between two checkpoints and in the middle of an epoch."""
COLUMNS, ROWS = 110, 40
LABEL = "A terminal: two ranks train, one is killed, and the job continues at the step where it was"
DIM = "\x1b[2m"


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "BIREME_HOME": home, "VIRTUAL_ENV": sys.prefix, "TERM": "xterm"}
        environ["PATH"] = f"{sys.prefix}/bin:{environ['PATH']}"
        # Undisturbed and cold; the filmed run starts warm, as the second run of any script does.
        subprocess.run(shlex.split(f"{RUN} --name undisturbed"), cwd=ROOT, env=environ, check=True)
        shown = film(environ, home)
        last = "bireme logs undisturbed --tail 1"
        end = subprocess.run(shlex.split(last), cwd=ROOT, env=environ, check=True, stdout=subprocess.PIPE)
        subprocess.run(["bireme", "doctor", "--end-warm"], env=environ, check=True, stdout=subprocess.DEVNULL)
    compared = [f"$ {last}{DIM}    # the same script, never killed", *_lines(end.stdout.decode())]
    (ROOT / "docs" / "terminal.svg").write_text(svg([f"$ {RUN}", *shown, *compared], LABEL))


def film(environ: dict[str, str], home: str) -> list[str]:
    """Runs the command in a pseudo-terminal, kills rank 1, and returns the lines that stay on the screen."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        shlex.split(RUN),
        cwd=ROOT,
        env=environ,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    shown, kill = "", ""
    while True:
        try:
            if select.select([master], [], [], 0.1)[0]:
                shown += os.read(master, 65536).decode()
        except OSError:  # the command has ended and has closed its end
            break
        if not kill and KILL_AFTER in shown:
            time.sleep(INTO_THE_EPOCH)
            kill = _kill_rank_1(home)
            shown += f"\r\x1b[2K$ {kill}{DIM}    # in another terminal\n"
    os.close(master)
    if process.wait() != 0 or not kill:
        raise SystemExit(f"the run did not do what the picture is to show:\n{shown}")
    return _lines(shown)


def _kill_rank_1(home: str) -> str:
    replicas = Client(home).job("train").replicas
    pid = next(replica.pid for replica in replicas if replica.rank == 1)
    if pid is None:
        raise SystemExit("rank 1 has no process")
    os.kill(pid, signal.SIGKILL)
    return f"kill -9 {pid}"


def _lines(shown: str) -> list[str]:
    """Returns what stays on the screen: the status line is erased each time before it is written again."""
    kept = re.sub(r"[^\n]*\r\x1b\[2K", "", shown.replace("\r\n", "\n"))
    return kept.rstrip("\n").split("\n")


if __name__ == "__main__":
    main()
