"""Where are checkpoints kept: in a folder, or in an object store."""

from __future__ import annotations

import re
from typing import Any, Callable

from ..script.complaints import Complaint
from . import owning
from .folders import Folder
from .values import Owner

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def store(where: str) -> Any:
    """What reads and writes there: a Store."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", where)
    if scheme is None:
        return Folder(where)
    if scheme.group(1).lower() not in SCHEMES:
        raise Complaint(
            f"checkpoints cannot be kept in {where}", f"write a folder, or one of {', '.join(SCHEMES)}://..."
        )
    from . import buckets

    return buckets.Bucket(where)


def take(of: Any, owner: Owner, is_meant: bool, tell: Callable[[str], None]) -> Any:
    """The right to write there, with `is_lost` and `release`."""
    if isinstance(of, Folder):
        return owning.take(of.where, owner, is_meant, tell)
    from . import buckets

    return buckets.take(of, owner, is_meant, tell)
