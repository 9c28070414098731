"""Notices reads of `os.environ` and `os.environb`, through a subclass that both get for a while.

Both stay the same objects, so a module that did `from os import environ` is seen as well, and nothing of what
they hold is touched. Reads by compiled code (getenv) are not seen.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional, Tuple

SITE = ("/site-packages/", "/dist-packages/")


class Watch:
    """Tells of reads from `install` to `remove`."""

    def __init__(
        self,
        on_read: Callable[[str, FrameType], None],
        names: Optional[FrozenSet[str]] = None,
        on_walk: Optional[Callable[[FrameType, Iterator[Any]], Iterator[Any]]] = None,
    ) -> None:
        """`on_read` gets each name, or only these, before its value is looked up.

        `on_walk` follows a walk through all names.
        """
        self._on_read = on_read
        self._names = names
        self._on_walk = on_walk
        self._plain: List[Tuple[Any, Any]] = []  # Any: the private class of os.environ

    def install(self) -> None:
        for mapping in (os.environ, getattr(os, "environb", None)):
            if mapping is not None:
                self._plain.append((mapping, type(mapping)))
                mapping.__class__ = self._watched(type(mapping))

    def _watched(self, plain: Any) -> Any:
        on_read, on_walk = self._on_read, self._on_walk
        names = None if self._names is None else self._names | {os.fsencode(name) for name in self._names}

        class Environment(plain):  # type: ignore[misc]
            def __getitem__(self, key: Any) -> Any:
                # Code that torch compiles may read the environment: whatever is not watched must not come to
                # `sys._getframe`, which Dynamo refuses.
                if names is None or (isinstance(key, (str, bytes)) and key in names):
                    on_read(os.fsdecode(key), sys._getframe(1))
                return plain.__getitem__(self, key)

            if on_walk is not None:

                def __iter__(self) -> Iterator[Any]:
                    walked: Iterator[Any] = on_walk(sys._getframe(1), plain.__iter__(self))
                    return walked

        # A script that prints the type sees what it always saw.
        Environment.__name__, Environment.__qualname__ = plain.__name__, plain.__qualname__
        Environment.__module__ = plain.__module__
        return Environment

    def unseen(self, *names: str) -> Dict[str, str]:
        """The values of these variables as they are now, where they are set; this is not told as a read."""
        _, plain = self._plain[0]
        found: Dict[str, str] = {}
        for name in names:
            try:
                found[name] = plain.__getitem__(os.environ, name)
            except KeyError:
                continue
        return found

    def remove(self) -> None:
        for mapping, plain in self._plain:
            mapping.__class__ = plain


def callers(frame: Optional[FrameType], most: int) -> Iterator[FrameType]:
    """A frame and those that called it, the innermost first."""
    while frame is not None and most > 0:
        yield frame
        frame, most = frame.f_back, most - 1


def third_party_import(frame: Optional[FrameType]) -> Optional[str]:
    """The innermost third-party module that is being imported in this call stack, if any."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "<module>" and any(site in code.co_filename for site in SITE):
            name = str(frame.f_globals.get("__name__"))
            # `python -m tool` runs a third-party module, it does not import it.
            if name != "__main__":
                return name
        frame = frame.f_back
    return None
