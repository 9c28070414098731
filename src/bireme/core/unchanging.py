"""Which errors another attempt would not change.

A rank's interpreter tells what ended it by the name of the exception, its message and its place. Some of
these are the same in every attempt: a source that does not compile, a module that is not there, an option
that nobody knows. Others come from outside, such as a peer that went away, and tell nothing of the next.
"""

from __future__ import annotations

import hashlib
import re

from bireme.model.replicas import Told

_SOURCE = ("SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError")
_COMPLAINT = "complaints.Complaint"
"""How the name of our own complaint about a script or a checkpoint ends; one that may pass has another."""
_EXIT = "SystemExit"
_USAGE = "2"
_PARSERS = re.compile(r"(?:^|/)(?:argparse|optparse|docopt|click|typer|fire|absl)(?:\.py|/)")
_RUNPY = re.compile(r"runpy(?:\.py)?>?:[0-9]+$")

_PASSING_TYPES = re.compile(
    r"(?:^|\.)(?:\w*(?:Connection|Timeout|Unavailable|Throttl|Interrupt)\w*|BrokenPipeError|OSError|IOError|"
    r"BlockingIOError|gaierror|herror|URLError|HTTPError|Dist\w*Error|NotFinite|Passing)$"
)
_PASSING_WORDS = re.compile(
    r"onnect(?:ion|ed|ing)?\b|timed? ?out|imeout|\bgloo\b|\bNCCL\b|\bpeers?\b|\bsocket\b|rendezvous|"
    r"[Aa]ddress already in use|out of memory|CUDA error|device-side|cuBLAS|cuDNN"
)


def is_unchanging(told: Told) -> bool:
    """Whether the error is of those that a program meets in every attempt alike."""
    name = told.type.rpartition(".")[2]
    if name == _EXIT or told.type.endswith("FireExit"):
        wrong_usage = told.message == _USAGE or not told.message.isdecimal()
        return bool(_RUNPY.search(told.place)) or (wrong_usage and bool(_PARSERS.search(told.place)))
    if told.type in _SOURCE or told.type.endswith(_COMPLAINT):
        return True
    # Nothing of the program had run: the script itself could not be read.
    return bool(told.type) and not told.place


def signature(told: Told) -> str:
    """The same for the same error at the same place; empty where it may well not come again."""
    if not told.type or _is_passing(told):
        return ""
    text = f"{told.type}\0{told.message}\0{told.place}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _is_passing(told: Told) -> bool:
    if told.type.rpartition(".")[2] == _EXIT and told.message.isdecimal() and not is_unchanging(told):
        return True  # a status that the program chose; it may mean anything
    return bool(_PASSING_TYPES.search(told.type) or _PASSING_WORDS.search(told.message))
