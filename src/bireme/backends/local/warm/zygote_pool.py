"""Lists warm interpreters, chooses those that serve a program, starts new ones and ends idle ones.

A zygote belongs to the user, not to a job or a script. It is known by what it can serve: the interpreter, the
variables that act at import, and the packages that it preloaded. Which variables act at import is partly
known beforehand (wire.at_import), partly learnt from a zygote that has preloaded the same: it notes what it
read, and the next one is given those variables too. What a zygote is stands in files beside its socket, so
that listing and choosing never wait for one that is busy or stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme.backends.local.warm import package_weights, zygote_files
from bireme.backends.local.warm.zygote_files import Lesson, Zygote, tops
from bireme.core.machine import warm_starts
from bireme.core.machine.warm_starts import Needs, Warm
from bireme.model.decode_errors import DAMAGED
from bireme.runs.storage import files
from bireme.runtime import linux, wire
from bireme.runtime.zygote import zygote_state

IDLE = 600
"""Seconds that a zygote outlives its last rank."""
RUNTIME = Path(wire.__file__).parent

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TERM", "TZ", "SSL_CERT_FILE")
_EXPECTED = 384 << 20
"""Bytes that one is taken to hold before it is known: torch and what comes with it."""
_PATIENCE = 1.0
"""Seconds that one which is asked to retire may take to answer."""
_LAST_WORDS = 3.0
_LOOK_EVERY = 0.01
"""Seconds in which those that are told to end do so, all of them together."""


class ZygoteKey(Struct, frozen=True):
    """What a zygote can serve: ranks of this interpreter whose import-time variables are these."""

    python: str
    environment: Mapping[str, str]
    """The rank's; what else of it acts at import is learnt."""

    @property
    def variables(self) -> Mapping[str, str]:
        return wire.at_import(self.environment)

    @property
    def name(self) -> str:
        try:
            stamp = os.stat(self.python).st_mtime_ns
        except OSError:
            stamp = 0
        return _digest([self.python, stamp, sorted(self.variables.items())])


class ZygotePool:
    """The folder in which the zygotes of a home live."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "zygotes"

    def key(self, python: str, environment: Mapping[str, str]) -> ZygoteKey:
        return ZygoteKey(python, environment)

    def serving(self, key: ZygoteKey, needs: Needs) -> tuple[str, ...]:
        """The sockets of the zygotes that may serve a program, the best first."""
        found = [zygote for zygote in self._of(key) if zygote.is_ready and not zygote.is_stopped]
        if any(not set(zygote.roots) <= needs.certain for zygote in found):
            # What the packages of the source need is imported with them, though the source does not say so.
            brought = package_weights.required(needs.certain, found[0].sites)
            needs = Needs(needs.certain | brought, needs.possible)
        names = warm_starts.serving(needs, [zygote.warm for zygote in found])
        return tuple(str(self._folder / name / "socket") for name in names)

    def sockets(self) -> tuple[str, ...]:
        """The sockets of all zygotes that can answer now."""
        ready = (zygote for zygote in self.living() if not zygote.is_stopped)
        return tuple(str(self._folder / zygote.name / "socket") for zygote in ready)

    def covers(self, key: ZygoteKey, needs: Needs, modules: tuple[str, ...]) -> bool:
        """Whether a zygote that serves such a program has these modules loaded, or is about to."""
        packages = tops(modules)
        serving = {os.path.basename(os.path.dirname(path)) for path in self.serving(key, needs)}
        for zygote in self._of(key):
            held = zygote.packages if zygote.is_ready else set(zygote.preload)
            if packages <= held and (zygote.name in serving or not zygote.is_ready):
                return True
        return False

    def start(self, key: ZygoteKey, modules: tuple[str, ...], limit: int, now: float) -> None:
        """Start a zygote in the background; a second one of the same kind ends by itself."""
        learnt = self._learnt_variables(key, modules)
        folder = self._folder / f"{key.name}-{_digest([sorted(tops(modules)), sorted(learnt.items())])}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if zygote_files.living(folder) is not None:
            return
        refusal = zygote_files.refusal(folder)
        if refusal is not None and refusal.holds(limit, now):
            less = tuple(
                name for name in modules if name.partition(".")[0] != refusal.module.partition(".")[0]
            )
            if refusal.module and less and less != modules:
                self.start(key, less, limit, now)
            return
        # It will hold what the last one of its kind did, else a guess.
        recorded = zygote_files.recorded_memory(folder)
        self.make_room(limit - (min(_EXPECTED, limit // 2) if recorded is None else recorded))
        (folder / "preload").write_bytes(msgspec.json.encode(modules))
        kept = {name: key.environment[name] for name in _KEPT if name in key.environment}
        environment = kept | dict(key.variables) | learnt
        words = [key.python, str(RUNTIME / "start_zygote.py"), "--socket", str(folder / "socket")]
        words += ["--preload", ",".join(modules), "--idle", str(IDLE), "--memory", str(limit)]
        with open(folder / "log", "ab") as log, contextlib.suppress(OSError):
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def make_room(self, limit: int) -> None:
        """End idle zygotes, the least recently used first, until the others hold no more than the limit."""
        found = {zygote.name: zygote for zygote in self.every()}
        if sum(zygote.memory for zygote in found.values() if zygote.is_ready) <= limit and all(
            zygote.is_ready for zygote in found.values()
        ):
            return
        held = [
            Warm(
                zygote.name,
                frozenset(zygote.roots),
                memory=zygote.memory if zygote.is_ready else max(zygote.memory, min(_EXPECTED, limit // 2)),
                used=zygote.used,
                is_idle=zygote.is_ready and not zygote_state.has_ranks(zygote.pid),
            )
            for zygote in found.values()
        ]
        for name in warm_starts.surplus(held, max(0, limit)):
            if found[name].is_stopped:
                _signal(found[name], signal.SIGKILL)
                continue
            with (
                contextlib.suppress(OSError, wire.WireError),
                wire.connect(str(self._folder / name / "socket"), _PATIENCE) as channel,
            ):
                channel.send({"op": "retire"})
                channel.receive()

    def learn(self, python: str, script: str, lesson: Lesson) -> None:
        """Remember what a script's run imported."""
        path = self._lesson(python, script)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(lesson))
        new.replace(path)

    def learnt(self, python: str, script: str) -> Lesson:
        """What is known of the script; empty when it never ran."""
        try:
            return msgspec.json.decode(files.read(self._lesson(python, script)), type=Lesson)
        except (OSError, *DAMAGED):
            return Lesson()

    def living(self) -> list[Zygote]:
        """Every zygote of this home that has its modules loaded."""
        return [zygote for zygote in self.every() if zygote.is_ready]

    def every(self) -> list[Zygote]:
        """Every zygote of this home, those included that still import; none is asked or waited for."""
        with contextlib.suppress(FileNotFoundError):
            found = (zygote_files.living(folder) for folder in sorted(self._folder.iterdir()))
            return [zygote for zygote in found if zygote is not None]
        return []

    def end(self) -> int:
        """End every zygote; ranks that one of them started end with it. Returns how many there were."""
        zygotes = self.every()
        for zygote in zygotes:
            # A stopped one would take the signal only when it is continued.
            _signal(zygote, signal.SIGKILL if zygote.is_stopped else signal.SIGTERM)
        for _ in range(int(_LAST_WORDS / _LOOK_EVERY)):
            if not any(zygote_files.living(self._folder / zygote.name) for zygote in zygotes):
                break
            time.sleep(_LOOK_EVERY)
        for zygote in self.every():
            _signal(zygote, signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)
        return len(zygotes)

    def _of(self, key: ZygoteKey) -> list[Zygote]:
        """Those of an interpreter whose variables are the program's, as far as they are known to act."""
        found = []
        for zygote in self.every():
            if zygote.name.startswith(f"{key.name}-"):
                reads = zygote_files.reads(self._folder / zygote.name) if zygote.is_ready else None
                if not zygote.is_ready or (reads is not None and reads.agree_with(key.environment)):
                    found.append(zygote)
        return found

    def _learnt_variables(self, key: ZygoteKey, modules: tuple[str, ...]) -> dict[str, str]:
        """What earlier zygotes of these modules read at import, as far as the rank's environment has it."""
        found: dict[str, str] = {}
        for folder in self._folder.glob(f"{key.name}-*"):
            reads = (
                zygote_files.reads(folder) if tops(zygote_files.preload(folder)) == tops(modules) else None
            )
            if reads is not None:
                found |= {
                    name: key.environment[name]
                    for name in reads.noted.relevant(key.environment)
                    if name in key.environment
                }
        return found

    def _lesson(self, python: str, script: str) -> Path:
        return self._folder / "lessons" / f"{_digest([python, script])}.json"


def _signal(zygote: Zygote, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(zygote.pid, number)


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def is_available() -> bool:
    """Whether forking ranks is possible here at all."""
    return linux.AVAILABLE
