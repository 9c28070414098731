"""The values that are written into a run directory, beside its status."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct, structs

from bireme import errors, kinds
from bireme.model.decisions import EventType
from bireme.model.job import Job

_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]{0,199}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class RunId(Struct, frozen=True, order=True):
    """Which run: the name of its job and, from the second run of that name on, its number."""

    name: str
    number: int = 1

    def __str__(self) -> str:
        return self.name if self.number == 1 else f"{self.name}#{self.number}"


def parse_run(text: str) -> tuple[str, int | None]:
    """Splits `mnist#2` into name and number; no number means the newest run of that name."""
    name, mark, number = text.partition("#")
    if not is_name(name) or (mark and not is_number(number)):
        raise errors.BadInput(f"{text!r} is not the name of a run", hint="`bireme ps --all` lists them")
    return name, int(number) if mark else None


def is_name(text: str) -> bool:
    """Says whether a run may be called so: whatever else lies in a home is none."""
    return _NAME.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Says whether a text is the number of a run as we write it, which any database can hold."""
    return _NUMBER.fullmatch(text) is not None


class Desired(Struct, frozen=True):
    """What the user wants of a run now; commands edit it, its runner follows."""

    job: Job
    manifest: dict[str, object]
    """What was submitted, untouched."""
    deleted: bool = False
    """The run is to be ended and removed."""
    generation: int = 1
    """Grows by one with each edit."""

    def __post_init__(self) -> None:
        # Which fields the options have depends on the kind, which a decoder does not look at.
        structs.force_setattr(self, "job", kinds.typed(self.job))


class Machine(Struct, frozen=True):
    """Which machine, and since which of its starts."""

    host: str
    boot: str = ""
    """Differs after every start of the machine; empty where the platform does not tell."""


class CodeRecord(Struct, frozen=True, omit_defaults=True):
    """Which code ran."""

    commit: str = ""
    diff: str = ""
    """Hash of what differed from the commit; empty if nothing did."""
    files: dict[str, str] = {}
    """Hashes by path, where there is no repository."""


class ReferencedValues(Struct, frozen=True, omit_defaults=True):
    """The ConfigMaps and Secrets that came with the manifest: values by object name and key."""

    config_maps: dict[str, dict[str, bytes]] = {}
    secrets: dict[str, dict[str, bytes]] = {}

    def __repr__(self) -> str:
        return f"ReferencedValues({len(self.config_maps)} config maps, {len(self.secrets)} secrets)"


class Overrides(Struct, frozen=True, kw_only=True):
    """What the user supplies on top of the manifest, in place of an image and a cluster."""

    env: Mapping[str, str] = {}
    """`--env`: variables of every container."""
    maps: Mapping[str, str] = {}
    """`--map`: paths of the image, and the paths here that supply them."""
    volumes: Mapping[str, str] = {}
    """`--volume`: claim names, and the folders that supply them."""
    command: tuple[str, ...] = ()
    """`--command`: what the image's entrypoint would have run."""
    python: str = ""
    """`--python`: the interpreter; an empty text leaves it to the active environment."""
    image: str = ""
    """`--image`: of every container, in a cluster."""

    def __repr__(self) -> str:
        # Variables hold passwords and keys, so they are never shown.
        return f"{type(self).__name__}(env=<{len(self.env)} variables>, maps={self.maps!r})"


class RunOptions(Overrides, frozen=True, kw_only=True):
    """How a job is started; it goes unchanged from the caller through the submission into the run's files."""

    fits: bool = False
    """Shrink the job to this machine instead of rejecting it."""
    detached: bool = False
    """The job outlives the terminal that it was started from."""
    warm: bool = True
    """Ranks may be forked from a warm interpreter."""
    stdin: bool = False
    """Pass on the standard input of this process, a pipe or a file, to the job's only rank."""
    terminal: str = ""
    """The terminal that the job's only rank may read, for `input()` and `breakpoint()`."""
    continues: str = ""
    """`--from`: the job or folder, `NAME@STEP` one of its steps, whose checkpoint the job starts from."""


class RunContext(Struct, frozen=True, kw_only=True):
    """Where and with what a run was started, so that a runner resumed from any shell equals the first."""

    cwd: str
    python: str
    """The interpreter of the user's code."""
    machine: Machine
    created: float
    environment: dict[str, str] = {}
    options: RunOptions = RunOptions()
    references: ReferencedValues = ReferencedValues()
    code: CodeRecord = CodeRecord()
    format: int = 2
    """The version of these files. In version 1 the fields of `options` stood beside the others."""

    def is_of(self, machine: Machine) -> bool:
        """Says whether the run belongs to this machine, even if its host name changed since."""
        return self.machine.host == machine.host or (bool(machine.boot) and self.machine.boot == machine.boot)

    def __repr__(self) -> str:
        # Environments hold passwords and keys, so they are never shown.
        return (
            f"RunContext(cwd={self.cwd!r}, python={self.python!r}, machine={self.machine!r}, "
            f"environment=<{len(self.environment)} variables>)"
        )


class RecordedEvent(Struct, frozen=True):
    """Something worth telling, and when; identical ones in a row are one with a count."""

    time: float
    """When it happened last."""
    type: EventType
    reason: str
    message: str
    count: int = 1

    def repeats(self, other: RecordedEvent) -> bool:
        return (self.type, self.reason, self.message) == (other.type, other.reason, other.message)
