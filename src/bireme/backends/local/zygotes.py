"""Which warm interpreters are there, which one serves a program, and what should one preload.

A zygote belongs to the user, not to a job. It is known by what it can serve: the interpreter, the variables
that act at import, and the packages that it preloaded. What to preload is learnt from what a script's last
run imported. Which variables act at import is partly known beforehand (wire.at_import), partly learnt from a
zygote that has preloaded the same: it notes what it read, and the next one is given those variables too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme.model.decoding import DAMAGED
from bireme.runs import files
from bireme.runtime import linux, noting, wire

IDLE = 600
"""Seconds that a zygote outlives its last rank."""
RUNTIME = Path(wire.__file__).parent

_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "TERM", "TZ", "SSL_CERT_FILE")
_IMPLIED = {"torch": ("torch", "torch._dynamo", "torch.distributed", "torch.nn.parallel", "torch.utils.data")}
"""What every training with a package imports sooner or later; the first DDP() imports torch._dynamo."""


class Key(Struct, frozen=True):
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


class Zygote(Struct, frozen=True):
    """A warm interpreter that lives now."""

    name: str
    pid: int
    preload: tuple[str, ...]
    memory: int
    """Bytes that are its alone or its share of what it shares."""


class Stable:
    """The folder in which the zygotes of a home live."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "zygotes"

    def key(self, python: str, environment: Mapping[str, str]) -> Key:
        return Key(python, environment)

    def best(self, key: Key, modules: tuple[str, ...]) -> str | None:
        """The socket of the zygote that holds most of these modules and nothing beyond them."""
        found = []
        for folder in self._folder.glob(f"{key.name}-*"):
            held = _modules(folder / "preload")
            if not held or not set(held) <= set(modules) or not (folder / "socket").exists():
                continue
            reads = _reads(folder)
            if reads is not None and reads.agree_with(key.environment):
                found.append((len(held), str(folder / "socket")))
        return max(found)[1] if found else None

    def start(self, key: Key, modules: tuple[str, ...]) -> None:
        """Start a zygote in the background; a second one of the same kind ends by itself."""
        learnt = self._learnt_variables(key, modules)
        folder = self._folder / f"{key.name}-{_digest([modules, sorted(learnt.items())])}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / "socket.refused").exists():
            return
        (folder / "preload").write_bytes(msgspec.json.encode(modules))
        kept = {name: key.environment[name] for name in _KEPT if name in key.environment}
        environment = kept | dict(key.variables) | learnt
        words = [key.python, str(RUNTIME / "zygote.py"), "--socket", str(folder / "socket")]
        words += ["--preload", ",".join(modules), "--idle", str(IDLE)]
        with open(folder / "log", "ab") as log, contextlib.suppress(OSError):
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def covers(self, key: Key, modules: tuple[str, ...]) -> bool:
        """Whether a living zygote has every package of these modules loaded already."""
        socket = self.best(key, modules)
        status = _ask(Path(socket)) if socket else None
        packages = {name.partition(".")[0] for name in modules}
        return status is not None and packages <= set(status.get("packages", ()))

    def learn(self, python: str, script: str, modules: tuple[str, ...]) -> None:
        """Remember what a script's run imported."""
        path = self._lesson(python, script)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_bytes(msgspec.json.encode(modules))
        new.replace(path)

    def learnt(self, python: str, script: str) -> tuple[str, ...]:
        """What the script's last run imported; empty when it is not known."""
        return _modules(self._lesson(python, script))

    def living(self) -> list[Zygote]:
        """Every zygote of this home that answers."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for folder in sorted(self._folder.iterdir()):
                status = _ask(folder / "socket")
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    if status is not None:
                        pid = int(status["pid"])
                        found.append(Zygote(folder.name, pid, tuple(status["preloaded"]), _memory(pid)))
        return found

    def end(self) -> int:
        """End every zygote; ranks that one of them started end with it. Returns how many there were."""
        zygotes = self.living()
        for one in zygotes:
            with (
                contextlib.suppress(OSError),
                wire.connect(str(self._folder / one.name / "socket"), 5.0) as channel,
            ):
                channel.send({"op": "shutdown"})
                channel.receive()
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)
        return len(zygotes)

    def _learnt_variables(self, key: Key, modules: tuple[str, ...]) -> dict[str, str]:
        """What earlier zygotes of these modules read at import, as far as the rank's environment has it."""
        found: dict[str, str] = {}
        for folder in self._folder.glob(f"{key.name}-*"):
            reads = _reads(folder) if _modules(folder / "preload") == modules else None
            if reads is not None:
                found |= {
                    name: key.environment[name]
                    for name in reads.noted.relevant(key.environment)
                    if name in key.environment
                }
        return found

    def _lesson(self, python: str, script: str) -> Path:
        return self._folder / "lessons" / f"{_digest([python, script])}.json"


class _Reads(Struct, frozen=True):
    """What a zygote wrote down about the variables that acted on its imports."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    values: Mapping[str, str | None]

    @property
    def noted(self) -> noting.Reads:
        return noting.Reads(self.names, self.prefixes)

    def agree_with(self, environment: Mapping[str, str]) -> bool:
        return self.noted.relevant(environment) == self.values


def _reads(folder: Path) -> _Reads | None:
    try:
        return msgspec.json.decode(files.read(folder / "socket.reads"), type=_Reads)
    except (OSError, *DAMAGED):
        return None


def preload(modules: tuple[str, ...]) -> tuple[str, ...]:
    """What to import ahead, given what a script imported."""
    found = set(modules)
    for package, implied in _IMPLIED.items():
        if package in found:
            found |= set(implied)
    return tuple(sorted(found))


def loaded_packages(pid: int) -> tuple[str, ...]:
    """Third-party packages whose compiled parts a running process has mapped: what it has imported so far."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return ()
    found: set[str] = set()
    for line in lines:
        for mark in ("/site-packages/", "/dist-packages/"):
            _, _, rest = line.partition(mark)
            package = rest.partition("/")[0]
            if "/" in rest and package.isidentifier() and not package.startswith("_"):
                found.add(package)
    return tuple(sorted(found - {"nvidia"}))


def _modules(path: Path) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(files.read(path), type=tuple[str, ...])
    except (OSError, *DAMAGED):
        return ()


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]


def _ask(socket: Path) -> wire.Message | None:
    try:
        with wire.connect(str(socket), 2.0) as channel:
            channel.send({"op": "status"})
            return channel.receive()
    except (OSError, wire.WireError):
        return None


def _memory(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def is_available() -> bool:
    """Whether forking ranks is possible here at all."""
    return linux.AVAILABLE
