"""Did a script ever ask which rank it is: reads of the rank's variables are noticed, at no cost to speak of.

Reads made while a third-party module is being imported do not count: `import torch` alone copies the whole
environment (tqdm looks for its own settings) and starts a program (ldconfig). A copy made later does count,
and so does a program started later, since it inherits the variables. Nothing here can fail a script.
"""

from __future__ import annotations

import os
import sys

from . import rendezvous_wait, single_rank

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Dict, List, Optional

NAMES = frozenset((b"RANK", b"WORLD_SIZE", b"LOCAL_RANK", b"MASTER_ADDR", b"TF_CONFIG"))

SITE = ("/site-packages/", "/dist-packages/")


class Watch:
    """What was noticed so far."""

    def __init__(self) -> None:
        self.read = False
        self.importers: List[str] = []  # third-party modules that read such a variable as they were imported

    def notice(self, frame: Optional[FrameType]) -> None:
        importer = third_party_import(frame)
        if importer is None:
            self.read = True
        elif importer not in self.importers:
            self.importers.append(importer)


def install() -> Watch:
    """Watches this process from now on."""
    watch = Watch()
    try:
        _watch_environ(watch)
        _watch_programs(watch)
    except Exception:
        # An interpreter that keeps its environment elsewhere: better no warning than a wrong one.
        watch.read = True
    return watch


def _watch_environ(watch: Watch) -> None:
    # The dictionary below os.environ and os.environb, and not their class, is replaced: `os.environ["X"]`
    # turns its KeyError into one of its own, so that no traceback ever shows a frame of ours.
    class Watched(dict[bytes, bytes]):
        def __getitem__(self, key: bytes) -> bytes:
            if key in NAMES and not watch.read:
                try:
                    watch.notice(sys._getframe(1))
                except Exception:
                    watch.read = True
            elif key == b"MASTER_PORT":
                rendezvous_wait.before_answer(sys._getframe(1), self)
            elif key == single_rank.ASKED:
                single_rank.before_answer(sys._getframe(1), self)
            return dict.__getitem__(self, key)

    _set_data(Watched(os.environ._data))  # type: ignore[attr-defined]


def _set_data(data: Dict[bytes, bytes]) -> None:
    os.environ._data = data  # type: ignore[attr-defined]
    os.environb._data = data  # type: ignore[attr-defined]


def _watch_programs(watch: Watch) -> None:
    # An audit hook would see more, but it makes every `id()` and `open()` of the script seven times dearer.
    # os.exec* needs no watching: after it nobody writes a report, and none means unknown.
    import _posixsubprocess

    _note_calls(watch, _posixsubprocess, "fork_exec")
    _note_calls(watch, os, "system")
    subprocess = sys.modules.get("subprocess")
    if hasattr(subprocess, "_fork_exec"):
        _note_calls(watch, subprocess, "_fork_exec")


def _note_calls(watch: Watch, module: Any, name: str) -> None:
    # Any: the modules are reached by attribute, as a patch of theirs must be.
    original: Callable[..., object] = getattr(module, name)

    def noting(*args: object, **options: object) -> object:
        try:
            watch.notice(sys._getframe(1))
            if watch.read:
                setattr(module, name, original)
        except Exception:
            watch.read = True
        return original(*args, **options)

    noting.__name__ = noting.__qualname__ = name
    noting.__doc__ = original.__doc__
    setattr(module, name, noting)


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
