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
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

SITE = ("/site-packages/", "/dist-packages/")


class Watch:
    """What is to be told of reads; `install` begins to tell, `remove` ends it."""

    def __init__(
        self,
        on_read: Callable[[str, FrameType], None],
        on_walk: Optional[Callable[[FrameType, Iterator[Any]], Iterator[Any]]] = None,
    ) -> None:
        """`on_read` gets each name before its value is looked up, `on_walk` follows a walk through all."""
        self._on_read = on_read
        self._on_walk = on_walk
        self._plain: List[Tuple[Any, Any]] = []  # Any: the private class of os.environ

    def install(self) -> None:
        for mapping in (os.environ, getattr(os, "environb", None)):
            if mapping is not None:
                self._plain.append((mapping, type(mapping)))
                mapping.__class__ = _watched(type(mapping), self._on_read, self._on_walk)

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


def _watched(plain: Any, on_read: Any, on_walk: Any) -> Any:
    class Environment(plain):  # type: ignore[misc]
        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, (str, bytes)):
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
