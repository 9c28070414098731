"""Notices reads of `os.environ` and `os.environb`, and among them whether a script asks for its rank.

Both get a subclass for a while and stay the same objects, so a module that did `from os import environ` is
seen as well, and nothing of what they hold is touched. Reads by compiled code (getenv) are not seen.

Reads of the rank made while a third-party module is being imported do not count: `import torch` alone copies
the whole environment (tqdm looks for its own settings) and starts a program (ldconfig). A copy made later
does count, and so does a program that is looked up on the PATH later, since it inherits the variables. Other
programs are found in the text of the script's own files. Nothing here can fail a script.

A script that was written for torchrun reads its variables, also where there is one rank. Lightning takes the
same variables for a promise that something else starts all of its processes, and refuses `devices=2`. So in
the only rank of a job they stay until Lightning itself asks what has launched the script, and are gone from
then on: the processes that it starts would else take this rank's number for theirs.
"""

from __future__ import annotations

import os
import sys

from . import rendezvous_wait

TYPE_CHECKING = False  # as in typing, which is not loaded here: a script may have a module of that name
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Optional, Tuple

SITE = ("/site-packages/", "/dist-packages/")

_RANK = frozenset(("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TF_CONFIG"))
_OTHERS = ("PATH", "MASTER_PORT", "TORCHELASTIC_RUN_ID")

_LAUNCHED = "TORCHELASTIC_RUN_ID"
"""What tells, by being there, that torchrun has launched a process."""

_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
_OF_TORCHRUN = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"),
)
# Words of a script that starts a program, which inherits the rank's variables.
_PROGRAMS = (b"subprocess", b"system(", b"popen", b"Popen", b"posix_spawn", b"spawnv", b"spawnl", b"pty.")
_SPAWNED = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_ELASTIC = "TORCHELASTIC_"
_NEAR = 8
"""How many callers up Lightning is found, behind torch and `os`."""


class EnvironmentWatch:
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
        self._observe(os.environ)
        if hasattr(os, "environb"):
            self._observe(os.environb)

    def _observe(self, mapping: Any) -> None:
        on_read, on_walk = self._on_read, self._on_walk
        plain: Any = type(mapping)
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
        self._plain.append((mapping, plain))
        mapping.__class__ = Environment

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


class RankReads:
    """Whether a rank's variables were read so far in this process; it is watched from now on."""

    def __init__(self) -> None:
        self.seen = False
        self._watch = EnvironmentWatch(self._on_read, _RANK.union(_OTHERS))
        self._watch.install()

    def _on_read(self, name: str, frame: FrameType) -> None:
        try:
            # Behind the method `get` of mappings: `os.get_exec_path`, which `subprocess` asks for a program.
            is_program = name == "PATH" and frame.f_back and frame.f_back.f_code is os.get_exec_path.__code__
            if name in _RANK or is_program:
                self.seen = self.seen or third_party_import(frame) is None
            elif name == "MASTER_PORT":
                rendezvous_wait.before_answer(frame, self._watch.unseen("RANK", "MASTER_ADDR", "MASTER_PORT"))
            elif name == _LAUNCHED:
                callers = rendezvous_wait.callers(frame, _NEAR)
                packages = {str(caller.f_globals.get("__name__")).partition(".")[0] for caller in callers}
                if packages.isdisjoint(_LIGHTNING) or self._watch.unseen("WORLD_SIZE") != {"WORLD_SIZE": "1"}:
                    return
                for gone in [key for key in os.environ if key in _OF_TORCHRUN or key.startswith(_ELASTIC)]:
                    del os.environ[gone]
        except Exception:
            # Better no advice than a wrong one; the script is answered as it would be without us.
            self.seen = True

    def were_wanted(self, files: Iterable[str], preloaded: FrozenSet[str]) -> bool:
        """Whether the script, which has these files, asked for its rank or may have told another program."""
        if self.seen:
            return True
        if any(name in sys.modules and name not in preloaded for name in _SPAWNED):
            return True
        for path in files:
            try:
                with open(path, "rb") as file:
                    text = file.read()
            except OSError:  # gone since, or inside an archive
                continue
            if any(word in text for word in _PROGRAMS):
                return True
        return False
