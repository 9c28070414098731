"""Starts a process in another pod for mpirun: stands in for ssh, and asks the API server to do it.

Called as `kubexec.py CONTAINER [options] HOST COMMAND...`, the way mpirun and horovodrun call ssh. The first
label of HOST is the pod. Standard input, output and error are relayed, and this process ends with the
command's exit code. Told to stop, it takes the command along. In a launcher's pod there is nothing else of
ours than this file and `execsocket.py`.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import sys
import time
from typing import List, Mapping, Optional, Sequence, Tuple

if not __package__:
    # Run by path: the modules beside this file get a package of a private name.
    _package = type(sys)("_bireme_runtime")
    _package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    __package__ = _package.__name__
    sys.modules[__package__] = _package

from . import execsocket
from .execsocket import ExecSession, Refused, Worker

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
ACCOUNT_VARIABLE = "BIREME_SERVICE_ACCOUNT_FOLDER"
PATIENCE_VARIABLE = "BIREME_MPI_PATIENCE"
PATIENCE = 60.0
"""Seconds that a worker is waited for which is not there or not running yet."""
MARK = "BIREME_EXEC"
"""The variable by which a command and all its children are found again when they are to be ended."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_RIGHTS = 5.0  # Seconds that rights which were just given may take to be known everywhere.
_ENDING = 10.0  # Seconds that ending a command may take.
_ENDS = """\
for name in TERM KILL; do
  for process in /proc/[0-9]*; do
    grep -qs "$0" $process/environ && kill -$name ${process#/proc/} && found=1
  done
  [ "$found$name" = 1TERM ] && sleep 1
done
"""
"""The shell's way to end all processes whose environment holds its argument."""

# Options of ssh that take a value of their own; all others are single words.
_WITH_VALUE = frozenset("-" + letter for letter in "BbcDEeFIiJLlmOopQRSWw")


def split(words: Sequence[str]) -> Tuple[str, List[str]]:
    """Parts ssh-style words into the host and the command; options before and behind the host are dropped."""
    rest = _without_options(words)
    if not rest:
        raise ValueError("no host is named")
    # As ssh does: horovodrun writes options behind the host too.
    return rest[0].rpartition("@")[2], _without_options(rest[1:])


def _without_options(words: Sequence[str]) -> List[str]:
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITH_VALUE and rest:
            rest.pop(0)
        elif option == "--":
            break
    return rest


class Stopped(Exception):
    """We were told to stop, by this signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    try:
        host, command = split(arguments[1:])
    except ValueError as error:
        print(f"bireme: {error}; usage: kubexec.sh [options] HOST COMMAND...", file=sys.stderr)
        return 255
    server = environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = int(environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get("KUBERNETES_SERVICE_PORT") or 443)
    account = environ.get(ACCOUNT_VARIABLE, ACCOUNT)
    worker = Worker((server, port), account, arguments[0], host.partition(".")[0])
    mark = base64.b32encode(os.urandom(10)).decode()
    try:
        patience = float(environ.get(PATIENCE_VARIABLE, PATIENCE))
    except ValueError:
        patience = PATIENCE

    def stop(number: int, _frame: object) -> None:
        # Once: a second signal must not interrupt the ending of what runs in the pod.
        for ending in _SIGNALS:
            signal.signal(ending, signal.SIG_IGN)
        raise Stopped(number)

    for ending in _SIGNALS:
        signal.signal(ending, stop)
    try:
        # The shell is replaced by one that has the mark from its beginning: only then it can be found by it.
        marked = f'export {MARK}={mark}; exec /bin/sh -c "$0"'
        return _started(worker, ("/bin/sh", "-c", marked, " ".join(command)), patience)
    except Refused as error:
        print(f"bireme: {execsocket.refusal(worker, error)}", file=sys.stderr)
        return 255
    except Stopped as stopped:
        # With all its children: a server that loses its client leaves them running.
        try:
            ExecSession(worker, ("/bin/sh", "-c", _ENDS, f"{MARK}={mark}"), None, limit=_ENDING).run()
        except (Refused, OSError) as error:
            print(f"bireme: what runs in {worker.pod} may continue: {error}", file=sys.stderr)
        return 128 + stopped.number


def _started(worker: Worker, command: Sequence[str], patience: float) -> int:
    """Runs a command as soon as its worker is there; raises Refused if that takes longer than it may."""
    stdin: Optional[int] = None
    with contextlib.suppress(OSError):
        # Not where there is nothing to be read from it: not every server can pass on its end.
        own, null = os.fstat(0), os.stat(os.devnull)
        stdin = None if (own.st_dev, own.st_ino) == (null.st_dev, null.st_ino) else 0
    begun, pause = time.monotonic(), 0.2
    while True:
        try:
            return ExecSession(worker, command, stdin).run()
        except Refused as error:
            # The right over a worker comes with it, and goes with it: a worker of this job is waited for.
            is_coming = error.code not in (401, 403) or (error.code == 403 and worker.pod in hosts(_FOLDER))
            limit = patience if is_coming else min(patience, _RIGHTS)
            # Of a worker that is about to start, or of a server that is busy.
            may_pass = error.code in (0, 401, 403, 404, 409, 429) or error.code >= 500
            may_pass = may_pass or "not have a host" in str(error)
            if not may_pass or time.monotonic() + pause > begun + limit:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 3.0)


def hosts(folder: str) -> List[str]:
    """The workers of this job, by their pods' names, as the hostfile beside us lists them."""
    try:
        with open(os.path.join(folder, "hostfile"), encoding="utf-8") as file:
            return [re.split(r"[.:\s]", line, maxsplit=1)[0] for line in file]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
