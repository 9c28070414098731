"""Asks the user's interpreter for its version and for the frameworks that it has."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from bireme import errors
from bireme.backends.local.preflight import python_finder
from bireme.model.decode_errors import DAMAGED

_PATIENCE = 10.0
_FRAMEWORKS = (
    "torch",
    "lightning",
    "tensorflow",
    "tensorflow-cpu",
    "jax",
    "xgboost",
    "xgboost-cpu",
    "paddlepaddle",
    "mpi4py",
    "horovod",
)

# Runs in the user's interpreter, whatever that is; the frameworks themselves are not imported.
_ASK = """
import json, platform, sys
try:
    from importlib.metadata import version, PackageNotFoundError
except ImportError:
    print(json.dumps([platform.python_version(), {}])); sys.exit()
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps([platform.python_version(), found]))
"""


class Interpreter(Struct, frozen=True, kw_only=True):
    """The Python that scripts run with, and the frameworks that are installed for it."""

    path: str
    version: str = ""
    """Empty if it does not answer."""
    frameworks: dict[str, str] = {}


def interpreter(environ: Mapping[str, str], chosen: str) -> Interpreter | None:
    """The Python that scripts run with; None if there is none."""
    try:
        path = python_finder.find(environ, chosen)
    except errors.BadInput:
        if chosen:
            raise
        return None
    answer = ask([path, "-c", _ASK, *_FRAMEWORKS], environ)
    try:
        version, found = msgspec.json.decode(answer, type=tuple[str, dict[str, str]])
    except DAMAGED:
        return Interpreter(path=path)
    return Interpreter(path=path, version=version, frameworks=found)


def ask(words: list[str], environ: Mapping[str, str]) -> str:
    """The output of a program; nothing if it fails or takes too long."""
    try:
        answer = subprocess.run(
            words,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.decode(errors="replace") if answer.returncode == 0 else ""
