"""Starts a process in another replica for mpirun: stands in for ssh, and asks the runner to do it.

Called as `agent.py SOCKET [options] HOST COMMAND...`, the way mpirun and horovodrun call ssh. The runner
starts the command inside the replica named HOST, on this process's own standard input, output and error, so
nothing is copied; this process waits and ends with the command's exit code. Killed, it takes that along.
"""

from __future__ import annotations

import os
import sys
from typing import Sequence

if not __package__:
    # Run by path: our modules get a package of a private name.
    _package = type(sys)("_bireme_runtime")
    _package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules[_package.__name__] = _package
    __package__ = _package.__name__ + ".mpi"

from .. import wire
from .kubexec import split


def main(arguments: Sequence[str]) -> int:
    if len(arguments) < 2:
        print("usage: agent.py SOCKET [options] HOST COMMAND...", file=sys.stderr)
        return 255
    try:
        host, command = split(arguments[1:])
    except ValueError as error:
        print(f"bireme: {error}", file=sys.stderr)
        return 255
    try:
        channel = wire.connect(arguments[0])
        channel.send({"op": "exec", "host": host, "command": " ".join(command)}, (0, 1, 2))
        answer = channel.receive()
    except (OSError, wire.WireError) as error:
        print(f"bireme: the runner does not answer: {error}", file=sys.stderr)
        return 255
    if answer is None:
        print("bireme: the runner is gone", file=sys.stderr)
        return 255
    if "error" in answer:
        print("bireme: " + str(answer["error"]), file=sys.stderr)
    code = answer.get("code")
    return code if isinstance(code, int) else 255


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
