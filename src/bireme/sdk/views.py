"""Declares what is shown of a job: the values that the client returns and that `--json` prints."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from bireme.core.machine.progress import Progress as Progress
from bireme.model.pods import Resources
from bireme.model.replicas import ReplicaPhase
from bireme.model.status import Condition, Phase
from bireme.runs.logs.log_reader import LogLine as LogLine
from bireme.runs.run_files import RecordedEvent

VERSION = 1
"""Of everything that `--json` prints. It grows when a field changes or goes, not when one is added."""


class Finding(StrEnum):
    """The subject of a diagnosis."""

    WAITING = "waiting"
    RESTARTED = "restarted"
    FAILED = "failed"
    INDEPENDENT = "independent"
    """The ranks ended well, and never knew of each other."""
    UNSAVED = "unsaved"
    """The ranks ended well, and what they computed is not in a checkpoint."""

    @property
    def is_warning(self) -> bool:
        """Whether it is about a job that has succeeded."""
        return self in (Finding.INDEPENDENT, Finding.UNSAVED)


class FirstError(Struct, frozen=True, kw_only=True):
    """The earliest thing that went wrong in an attempt."""

    replica: str
    short: str
    """The replica's name without its job's: `worker-1`."""
    rank: int | None
    host: str
    attempt: int
    exit_code: int | None
    time: float
    how: str
    """How it ended: `ended with exit code 1`, `was killed by SIGKILL`."""
    what: str = ""
    """The error in a line: `ValueError: no such file`."""
    traceback: str = ""
    tail: tuple[str, ...] = ()
    """The last lines that it printed, where there is no traceback."""


class InPlaceRestart(Struct, frozen=True):
    """A replica whose program was started again in place, how often, and how it last ended."""

    label: str
    """`rank 1` of a script, else `worker-0`."""
    restarts: int
    exit_code: int | None


class Glance(Struct, frozen=True):
    """A job at one moment, in what a status line has room for."""

    id: str
    phase: Phase
    ready: int
    total: int
    attempt: int
    waiting: str = ""
    trouble: str = ""
    behind: str = ""
    """Why all of this may be old, if it may."""
    stalled: str = ""
    """Since when there is no sign of progress, if that is long for this job."""
    again: tuple[InPlaceRestart, ...] = ()
    """Replicas of this attempt whose program was started again in place."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """Why a job waits, restarted or failed."""

    finding: Finding
    summary: str
    error: FirstError | None = None
    advice: tuple[str, ...] = ()
    """Lines to add or to type."""
    more: str = ""
    """The command that shows more."""


class RoleView(Struct, frozen=True, kw_only=True):
    """A replica type of a job."""

    name: str
    type: str
    replicas: int
    restart: str
    resources: Resources
    """Of each replica: millicores, bytes, and devices by name."""


class ReplicaView(Struct, frozen=True, kw_only=True):
    """One replica, whether it exists now or not."""

    name: str
    short: str
    role: str
    index: int
    rank: int | None
    phase: ReplicaPhase
    ready: bool = False
    attempt: int = 0
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    host: str = ""
    pid: int | None = None
    started: float | None = None
    ended: float | None = None


class JobSummary(Struct, frozen=True, kw_only=True):
    """A job in a list; times are seconds since 1970."""

    id: str
    """What verbs take: the name, with a number where the name alone means another run: `mnist#2`."""
    name: str
    number: int
    kind: str
    phase: Phase
    ready: int
    total: int
    attempt: int
    restarts: int
    created: float
    started: float | None
    completed: float | None
    exit_status: int | None
    """What `bireme wait` exits with; None while the job has not ended."""
    host: str
    is_here: bool
    """It belongs to this machine, so that the verbs act on it."""
    has_runner: bool
    expired: bool
    """Its time to live after the end is over: lists leave it out."""
    why: str
    """Why it waits, restarts or failed, in a sentence."""
    backend: str = "local"
    """`local` or `kubernetes`."""
    context: str = ""
    """The cluster, as the kubeconfig calls it; empty on this machine."""
    namespace: str = ""
    progress: Progress | None = None
    """How far it is, if its ranks report that."""
    stopping: bool = False
    """It was asked to stop, and its replicas have not ended yet."""
    resuming: bool = False
    """It was stopped and asked to resume, and has not started yet."""

    @property
    def key(self) -> str:
        """Names this very job for ever: its id alone may mean a newer one tomorrow."""
        if self.context or self.namespace:
            return f"{self.context}/{self.namespace}/{self.kind.lower()}/{self.name}"
        return f"{self.name}#{self.number}"

    @property
    def where(self) -> str:
        """`local`, or the cluster's context and the namespace."""
        return f"{self.context}/{self.namespace}" if self.context or self.namespace else self.backend

    @property
    def workers(self) -> str:
        """Ready replicas of all replicas: `2/2`."""
        return f"{self.ready}/{self.total}"

    @property
    def is_over(self) -> bool:
        return self.phase.is_final

    def age(self, now: float) -> float:
        return max(0.0, now - self.created)


class CheckpointView(Struct, frozen=True, kw_only=True):
    """The newest checkpoint of a job."""

    step: int
    where: str
    """A folder, or an object store."""
    saved: float | None = None
    """When, if that is known."""


class JobView(JobSummary, frozen=True, kw_only=True):
    """Everything about a job."""

    version: int = VERSION
    api_version: str
    crashes: int
    crash_limit: int | None
    """None means that any number is tolerated."""
    evictions: int
    eviction_limit: int
    forgiven: int = 0
    """Crashes before the last progress, or before it was resumed: they do not count any more."""
    roles: tuple[RoleView, ...]
    resources: Resources
    """Of all replicas together."""
    conditions: tuple[Condition, ...]
    replicas: tuple[ReplicaView, ...]
    events: tuple[RecordedEvent, ...]
    diagnosis: Diagnosis | None
    checkpoint: CheckpointView | None = None
    """The newest one that its script has saved with `run.save`, if it is known."""
    resumable: bool = False
    """It has failed, and `bireme resume` resumes it."""
    counts_ranks: bool = False
    """Its replicas are the ranks of a script, which are counted together."""
    ran: float | None = None
    """Seconds for which any of its replicas ran: neither in the queue nor suspended. None if none did."""
    command: tuple[str, ...]
    """Of the replica that leads."""
    folder: str
    """The run directory."""
    cwd: str
    python: str


class JobList(Struct, frozen=True, kw_only=True):
    """The output of `bireme ps --json`."""

    version: int = VERSION
    jobs: tuple[JobSummary, ...]
    warm: tuple[WarmView, ...] = ()
    unreached: tuple[str, ...] = ()
    """A sentence for each cluster that did not answer in time."""
    more: int = 0
    """How many jobs that have ended are left out."""


class WarmState(StrEnum):
    """The state of a warm interpreter."""

    READY = "ready"
    STARTING = "starting"
    """It still imports."""
    STOPPED = "stopped"
    """A signal has stopped it; it serves no run until it is continued."""


class WarmView(Struct, frozen=True, kw_only=True):
    """A warm interpreter that waits for the next run."""

    pid: int
    memory: int
    """Bytes."""
    modules: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """What people know it by: `torch`, `lightning`."""
    state: WarmState = WarmState.READY
    used: float = 0.0
    """When it last had something to do."""


class Problem(Struct, frozen=True):
    """Something that is missing or odd, and what to do next."""

    what: str
    next: str


class CheckedJob(Struct, frozen=True, kw_only=True):
    """A manifest that was found valid."""

    kind: str
    name: str
    file: str
    line: int
    replicas: dict[str, int]
    """How many, by role."""
    here: str = ""
    """What stands in the way of running it on this machine; empty if nothing does."""
    flags: tuple[str, ...] = ()
    """The words which, added to `bireme run`, supply all of that but what is to be done by hand."""
    by_hand: tuple[str, ...] = ()
    """Such as `install horovodrun`."""
    notes: tuple[str, ...] = ()


class ScriptFiles(Struct, frozen=True, kw_only=True):
    """The files that go with a script to a cluster, and those that do not."""

    script: str
    folder: str
    sent: tuple[str, ...]
    left_out: tuple[str, ...]
    """By ignore files; of a folder only its own name."""
    never_sent: tuple[str, ...]
    """What looks like a key or like credentials."""


class CheckError(Struct, frozen=True, kw_only=True):
    """Something that is wrong with what was given; line 0 means the file, or the command, as a whole."""

    code: str
    """What `bireme explain` takes."""
    text: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    field: str = ""


class CheckView(Struct, frozen=True, kw_only=True):
    """The output of `bireme check --json`."""

    version: int = VERSION
    jobs: tuple[CheckedJob, ...]
    warnings: tuple[str, ...]
    scripts: tuple[ScriptFiles, ...] = ()
    errors: tuple[CheckError, ...] = ()


class JobViews(Struct, frozen=True, kw_only=True):
    """What verbs that take several names print with `--json`."""

    version: int = VERSION
    jobs: tuple[JobView, ...]


class LogRecord(Struct, frozen=True, kw_only=True):
    """A line of `bireme logs --json`."""

    version: int = VERSION
    time: float
    replica: str
    container: str
    stream: str
    text: str


class RankStack(Struct, frozen=True, kw_only=True):
    """The Python stack of a rank."""

    replica: str
    short: str
    rank: int | None
    title: str
    """What a person calls it: `rank 0` of a script, else `rank 0 (master-0)`."""
    pid: int
    where: str
    """The innermost line of the user's own code, such as `train.py:12 in step()`."""
    threads: tuple[tuple[str, ...], ...]
    """The lines of each thread, the main one first, the innermost frame first."""
    problem: str = ""
    """Why nothing is known, if so."""


class JobStacks(Struct, frozen=True, kw_only=True):
    """The output of `bireme stacks --json`."""

    version: int = VERSION
    ranks: tuple[RankStack, ...]


class ManifestList(Struct, frozen=True, kw_only=True):
    """The output of `bireme render --json`."""

    version: int = VERSION
    manifests: tuple[dict[str, object], ...]


class ErrorView(Struct, frozen=True, kw_only=True):
    """A kind of error."""

    code: str
    exit_status: int
    explanation: str


class ErrorList(Struct, frozen=True, kw_only=True):
    """The output of `bireme explain --json`."""

    version: int = VERSION
    errors: tuple[ErrorView, ...]
