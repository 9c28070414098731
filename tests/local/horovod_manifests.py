"""The manifest of docs/script.md for Horovod, as tests use it."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "script.md"
GLOO = 'horovodrun, -np, "2", --gloo, --hostfile, /etc/mpi/hostfile, python, train.py'
MPI = GLOO.replace("--gloo", "--mpi")
MPIRUN = 'mpirun, --allow-run-as-root, -np, "2", python, train.py'


def documented(command: str) -> str:
    """The manifest of the document, with another command."""
    section = DOCUMENT.read_text().partition("## Horovod")[2].partition("\n## ")[0]
    block = re.search(r"^    apiVersion:.*?(?=^\S)", section, re.DOTALL | re.MULTILINE)
    assert block is not None
    assert GLOO in block[0]
    return textwrap.dedent(block[0]).replace(GLOO, command)
