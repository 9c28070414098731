"""The mark of a prefix in an object store: `owner.json`, replaced only if it is still what was read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional

from . import owner_marks
from .owner_marks import OwnerMark
from .ownership import Overtaken, SeenMark

if TYPE_CHECKING:
    from .object_store import Bucket

OWNER = "owner.json"
_CLOCK_STEP = 2.0
"""How wrong an age can be: stores tell whole seconds."""


class BucketMarks:
    """The mark of a prefix."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self.where = bucket.where

    def read(self) -> Optional[SeenMark]:
        try:
            found = self._bucket.look(OWNER, owner_marks.LIMIT)
        except FileNotFoundError:
            return None
        try:
            return SeenMark(owner_marks.read(found.data), found.tag, found.modified)
        except owner_marks.Malformed:
            raise owner_marks.Malformed(owner_marks.damaged(f"{self.where.rstrip('/')}/{OWNER}")) from None

    def take(self, mark: OwnerMark, over: Optional[SeenMark]) -> SeenMark:
        self._bucket.put_if(OWNER, owner_marks.write(mark), over.tag if over else None)
        # Read again, whatever the answer was: a request may have been sent twice, and a store that does not
        # know conditions ignores them.
        return self._mine(mark)

    def renew(self, mark: OwnerMark) -> SeenMark:
        now = self._mine(mark)
        if self._bucket.put_if(OWNER, owner_marks.write(mark), now.tag):
            return SeenMark(mark, "")
        return self._mine(mark)

    def is_there(self, mark: OwnerMark) -> bool:
        return True

    def age(self, seen: SeenMark) -> float:
        probe = f".owner-{os.urandom(8).hex()}.partial"
        try:
            self._bucket.put(probe, b"-")
            now = self._bucket.look(probe, 1).modified
        finally:
            self._bucket.delete([probe])
        return max(0.0, now - seen.modified - _CLOCK_STEP)

    def _mine(self, mark: OwnerMark) -> SeenMark:
        now = self.read()
        if now is None or now.mark.session != mark.session:
            raise Overtaken(now.mark if now else None)
        return now
