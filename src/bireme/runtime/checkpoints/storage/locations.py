"""Chooses what keeps checkpoints at an address: a folder, or an object store."""

from __future__ import annotations

import re
from typing import Any, Callable, Optional

from ...script.complaints import Complaint
from . import folder_marks, ownership
from .folder_store import FolderStore
from .ownership import Ownership, OwnershipClaim

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")


def store(where: str) -> Any:
    """What reads and writes there: a Store."""
    check(where)
    if _scheme(where) is None:
        return FolderStore(where)
    from . import object_store

    return object_store.Bucket(where)


def check(where: str) -> None:
    """Refuses what names neither a folder nor an object store."""
    scheme = _scheme(where)
    if scheme is not None and scheme not in SCHEMES:
        raise Complaint(
            f"checkpoints cannot be kept in {where}", f"write a folder, or one of {', '.join(SCHEMES)}://..."
        )


def _scheme(where: str) -> Optional[str]:
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", where)
    return None if found is None else found.group(1).lower()


def take(of: Any, claim: OwnershipClaim, least: Callable[[], int], tell: Callable[[str], None]) -> Ownership:
    """The right to write there."""
    if isinstance(of, FolderStore):
        return folder_marks.take(of.where, claim, least, tell)
    return ownership.take(of.marks(), claim, least, tell)
