"""Reads the files of zygotes: what they are, what they read at import, why they refused to serve.

Nothing here asks or waits for a zygote. Everything read may be damaged, and is then as if it were not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from bireme.core.machine.warm_starts import Needs, Warm
from bireme.model.decode_errors import DAMAGED
from bireme.runs.storage import files
from bireme.runtime import linux
from bireme.runtime.zygote import import_variables, zygote_state

_FORGET_REFUSAL = 86400.0
"""Seconds after which a zygote that refused is tried again."""


class Zygote(Struct, frozen=True):
    """A warm interpreter that lives now."""

    name: str
    pid: int
    preload: tuple[str, ...]
    roots: tuple[str, ...] = ()
    """See Warm.roots; in the order of their import."""
    packages: frozenset[str] = frozenset()
    sites: tuple[str, ...] = ()
    used: float = 0.0
    """When it last had something to do."""
    is_ready: bool = False
    is_stopped: bool = False

    @property
    def memory(self) -> int:
        """Bytes that are its alone or its share of what it shares, now; reading it takes milliseconds."""
        return zygote_state.memory(self.pid)

    @property
    def warm(self) -> Warm:
        return Warm(self.name, frozenset(self.roots), self.packages, used=self.used)


class Lesson(Struct, frozen=True):
    """What is known of a script from its last run."""

    modules: tuple[str, ...] = ()
    """What it had imported."""
    imports: tuple[str, ...] = ()
    """The packages that its source named at that time."""
    sites: tuple[str, ...] = ()
    """The folders of its third-party packages."""

    def given(self, source: Needs) -> Lesson:
        """What still holds, now that the source names these: nothing, if an import was taken out since."""
        return self if set(self.imports) <= source.certain | source.possible else Lesson(sites=self.sites)

    def needs(self, source: Needs) -> Needs:
        """What the script imports, given what its source names now."""
        return Needs(source.certain | tops(self.given(source).modules), source.possible)


class _State(Struct, frozen=True):
    """What a zygote wrote down about itself: see runtime/zygote/zygote_state.py."""

    pid: int
    start_time: int
    system: str
    ready: bool
    roots: tuple[str, ...]
    packages: frozenset[str]
    sites: tuple[str, ...]
    memory: int


class ZygoteFailure(Struct, frozen=True):
    """Why a zygote did not serve."""

    time: float
    module: str = ""
    memory: int = 0

    def holds(self, limit: int, now: float) -> bool:
        """Whether another try would end as the last one did; packages are upgraded, limits are changed."""
        if self.memory:
            return self.memory > limit
        return now - self.time < _FORGET_REFUSAL


def living(folder: Path) -> Zygote | None:
    """The zygote of a folder, if it lives."""
    state, path = _state(folder), folder / "socket.state"
    if state is None or state.system != zygote_state.system():
        return None
    found = linux.process(state.pid)
    if found is None or found.zombie or found.started != state.start_time:
        return None
    try:
        used = path.stat().st_mtime
    except OSError:
        return None
    return Zygote(
        name=folder.name,
        pid=state.pid,
        preload=preload(folder),
        roots=state.roots,
        packages=state.packages,
        sites=state.sites,
        used=used,
        is_ready=state.ready and (folder / "socket").exists(),
        is_stopped=zygote_state.is_stopped(state.pid),
    )


def _state(folder: Path) -> _State | None:
    try:
        state = msgspec.json.decode(files.read(folder / "socket.state"), type=_State)
    except (OSError, *DAMAGED):
        return None
    return state if state.pid > 1 else None


def refusal(folder: Path) -> ZygoteFailure | None:
    """Why the last zygote of a folder did not serve, if it did not."""
    try:
        return msgspec.json.decode(files.read(folder / "socket.refused"), type=ZygoteFailure)
    except (OSError, *DAMAGED):
        return None


def recorded_memory(folder: Path) -> int | None:
    """What the last zygote of a folder held when it was ready; None if there was none."""
    state = _state(folder)
    return state.memory if state is not None and state.ready else None


class RecordedReads(Struct, frozen=True):
    """What a zygote wrote down about the variables that acted on its imports."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    values: Mapping[str, str | None]

    @property
    def noted(self) -> import_variables.ImportReads:
        return import_variables.ImportReads(self.names, self.prefixes)

    def agree_with(self, environment: Mapping[str, str]) -> bool:
        return self.noted.relevant(environment) == self.values


def reads(folder: Path) -> RecordedReads | None:
    """What the last zygote of a folder read at import."""
    try:
        return msgspec.json.decode(files.read(folder / "socket.reads"), type=RecordedReads)
    except (OSError, *DAMAGED):
        return None


def preload(folder: Path) -> tuple[str, ...]:
    """What the zygote of a folder was told to import."""
    try:
        return msgspec.json.decode(files.read(folder / "preload"), type=tuple[str, ...])
    except (OSError, *DAMAGED):
        return ()


def tops(modules: Iterable[str]) -> set[str]:
    """The packages that modules belong to."""
    return {name.partition(".")[0] for name in modules}
