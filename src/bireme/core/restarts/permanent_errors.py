"""Recognises errors that another attempt would not change.

A rank's interpreter reports what ended it by the name of the exception, its message and its place. Some of
these are the same in every attempt: a source that does not compile, a module that is missing, an option that
does not exist. Others come from outside, such as a peer that went away, and say nothing of the next attempt.
"""

from __future__ import annotations

import hashlib
import re

from bireme.model.replicas import Told

_SOURCE = ("SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "ImportError")
_UNREADABLE = (
    *("FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError"),
    *("UnicodeDecodeError", "ValueError"),  # bytes that are no text, and zeros in it
)
"""What reading the script itself may raise, before any of it has run; other errors may be transient."""
_OF_A_NODE = re.compile(
    r"shared object|\.so[.0-9]*: |map segment|static TLS|allocate memory|undefined symbol"
)
"""How an ImportError speaks of a library of the machine, which another machine may have."""
_COMPLAINT = "complaints.Complaint"
"""How the name of our own complaint about a script or a checkpoint ends; a transient one has another."""
_LEFT = ("bdb.BdbQuit", "EOFError: EOF when reading a line")
"""How a script ends whose user quits the debugger, or whose input is at its end: no user wants it retried."""
_EXITS = ("SystemExit", "FireExit")
_USAGE = 2
_NUMBERS = frozenset(str(number) for number in range(256))
_PARSERS = re.compile(r"(?:^|/)(?:argparse|optparse|click|typer|fire)(?:\.py|/)")
_RUNPY = re.compile(r"runpy(?:\.py)?>?:[0-9]+$")

_TRANSIENT_TYPES = re.compile(
    r"(?:^|\.)(?:\w*(?:Connection|Timeout|Unavailable|Throttl|Interrupt|Aborted|Cancelled|DeadlineExceeded)\w*|"
    r"\w*HTTP\w*Error|Horovod\w+|\w*nccl\w*Error|BrokenPipeError|OSError|IOError|BlockingIOError|gaierror|"
    r"herror|URLError|Dist\w*Error|MemoryError|NotFinite|Passing)$"
)
_TRANSIENT_WORDS = re.compile(
    r"onnect(?:ion|ed|ing)?\b|timed? ?out|imeout|\bgloo\b|\bNCCL\b|\bnccl\w*Error|\bpeers?\b|\bsocket\b|"
    r"rendezvous|[Aa]ddress already in use|out of memory|CUDA error|device-side|cuBLAS|cuDNN|[Hh]orovod|"
    r"\bABORTED\b|\bUNAVAILABLE\b|\bDEADLINE_EXCEEDED\b|\b[Cc]ollective (?:op|comm)|[Rr]ate limit|"
    r"\b(?:HTTP(?:/[0-9.]+)?|status(?: code)?:?) (?:429|5[0-9][0-9])\b|\b5[0-9][0-9] Server Error|"
    r"Too Many Requests|Internal Server Error|Bad Gateway|Service Unavailable|Gateway Time"
)


def is_unchanging(told: Told) -> bool:
    """Whether the program would meet the same error in every attempt."""
    if _is_exit(told):
        if _RUNPY.search(told.place):
            return True
        return _status(told) == _USAGE and bool(_PARSERS.search(told.place))
    if told.type in _SOURCE:
        return not (told.type == "ImportError" and _OF_A_NODE.search(told.message))
    if told.type.endswith(_COMPLAINT) or told.line in _LEFT:
        return True
    # Nothing of the program had run: the script itself could not be read.
    return told.type in _UNREADABLE and not told.place


def is_complaint(told: Told) -> bool:
    """Whether it is our own error about a script or a checkpoint, which no other node would change."""
    return told.type.endswith(_COMPLAINT)


def signature(told: Told) -> str:
    """The same for the same error at the same place; empty where the error may be transient."""
    if not told.type:
        return ""
    if _is_exit(told) and _status(told) is not None and not is_unchanging(told):
        return ""  # an exit status that the program chose; it may mean anything
    if told.type == "ImportError" and _OF_A_NODE.search(told.message):
        return ""
    if _TRANSIENT_TYPES.search(told.type) or _TRANSIENT_WORDS.search(told.message):
        return ""
    text = f"{told.type}\0{told.message}\0{told.place}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _is_exit(told: Told) -> bool:
    return told.type.rpartition(".")[2] in _EXITS


def _status(told: Told) -> int | None:
    """The status of an exit. Reports of earlier versions have it in their message, if they have one."""
    return int(told.message) if told.status is None and told.message in _NUMBERS else told.status
