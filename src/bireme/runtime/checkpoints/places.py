"""Where are checkpoints kept: in a folder, or in an object store."""

from __future__ import annotations

from typing import Callable

from . import owning
from .folders import Folder
from .values import Owner


def store(where: str) -> Folder:
    return Folder(where)


def take(where: str, owner: Owner, is_meant: bool, tell: Callable[[str], None]) -> owning.Ownership:
    """The right to write there."""
    return owning.take(where, owner, is_meant, tell)
