"""Writes a part of a checkpoint to a file that torch reads without Bireme."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Dict, Sequence

from ..rank.rank_report import to_json
from ..script.complaints import Complaint
from . import loading
from .state import arrays

BAD, NO_TORCH = 2, 3
"""Exit statuses: what was asked for cannot be done; another interpreter may have torch."""


def main(words: Sequence[str]) -> int:
    """`SOURCE TARGET PART FORCE`: prints what was written as JSON, or says what is wrong."""
    source, target, part, force = words
    try:
        torch = arrays.library("torch", "the file is one of it")
    except Complaint as complaint:
        print(complaint, file=sys.stderr)
        return NO_TORCH
    try:
        print(to_json(export(torch, source, target, part, force == "force")))
    except Complaint as complaint:
        print(to_json({"what": complaint.what, "hint": complaint.hint}), file=sys.stderr)
        return BAD
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror or error}"
        print(to_json({"what": what, "hint": ""}), file=sys.stderr)
        return BAD
    return 0


def export(torch: Any, source: str, target: str, part: str, is_forced: bool) -> Dict[str, Any]:
    """Writes the part, all at once; refuses to replace a file unless it is forced to."""
    refuse_existing(target, is_forced)
    loaded = loading.load(source)
    name = chosen(list(loaded), part)
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with open(partial, "xb") as opened:
            torch.save(loaded[name], opened)
            opened.flush()
            os.fsync(opened.fileno())
        size = os.path.getsize(partial)
        if is_forced:
            os.replace(partial, target)
        else:
            try:
                os.link(partial, target)  # unlike a rename it never replaces what has come meanwhile
            except FileExistsError:
                refuse_existing(target, False)
                raise
            except OSError:
                # A file system without links.
                refuse_existing(target, False)
                os.replace(partial, target)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(partial)
    return {
        "part": name,
        "step": loaded.step,
        "size": size,
        "ranks": loaded.world_size,
        "is_sharded": loaded.is_sharded,
        "others": [other for other in loaded if other != name],
    }


def refuse_existing(target: str, is_forced: bool) -> None:
    if os.path.isdir(target):
        raise Complaint(f"{target} is a folder", "name the file in it")
    if os.path.lexists(target) and not is_forced:
        raise Complaint(f"{target} is there already", "--force replaces it")


def chosen(there: Sequence[str], part: str) -> str:
    """The part that is meant: the one that is named, the model, or the only one."""
    if part in there or (not part and "model" in there):
        return part or "model"
    if not part and len(there) == 1:
        return there[0]
    listed = ", ".join(there) or "no part"
    if part:
        raise Complaint(f"there is no part {part} in it, which has {listed}", "--part NAME")
    raise Complaint(f"it has no part named model, but {listed}", "--part NAME says which is meant")
