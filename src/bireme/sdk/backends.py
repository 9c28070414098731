"""Declares what a backend offers: this machine, or a cluster.

Each backend has one: `local.LocalPlace` and `cluster.ClusterPlace`. Both speak in the same views, so that
a program that shows a job need not know where it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from bireme import errors
from bireme.model.job import Job
from bireme.runs.logs.log_reader import EVERYTHING, LogLine, LogSelection
from bireme.sdk.submissions import SubmissionBatch
from bireme.sdk.views import CheckView, Diagnosis, Glance, JobSummary, JobView, RankStack

if TYPE_CHECKING:  # imported when they are shown: the other verbs do without
    from bireme.sdk.tensorboards import Curves

VARIABLE = "BIREME_ON"
STOP_PATIENCE = 30.0
"""Seconds beyond the longest grace of a job's replicas after which a stop counts as stuck."""
SOON = 0.02
"""Seconds between two looks while a job is young and its user waits for the first line."""
LATER = 0.05
SELDOM = 0.1
YOUNG = 2.0
"""Seconds for which a job is young."""
QUIET = 5.0
"""Seconds without a line after which looks become seldom; no user sees the difference, and it costs half."""


class BackendName(StrEnum):
    """The name of a backend, as `--on` takes it."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class Where(Struct, frozen=True):
    """The place that the user names; an empty text leaves it open."""

    on: str = ""
    context: str = ""
    namespace: str = ""
    kubeconfig: str = ""

    @property
    def names_a_cluster(self) -> bool:
        return bool(self.context or self.namespace or self.kubeconfig)


class Following(Protocol):
    """Follows one job: its lines, and its state at a glance. It is polled, and never blocks for long."""

    @property
    def id(self) -> str: ...
    @property
    def job(self) -> Job: ...
    def refresh(self) -> None:
        """Looks at the state again; `poll` does so too."""

    def poll(self) -> list[LogLine]:
        """The lines that were printed since the last poll."""

    def drain(self) -> Iterator[LogLine]:
        """All lines that are there and were not returned yet."""

    def silence(self) -> str:
        """The reason for which there may be no lines although some were printed; empty if there is none."""

    def unfinished(self) -> LogLine | None:
        """The newest line that its program has not ended yet."""

    def glance(self) -> Glance: ...
    def why_restarted(self, attempt: int | None = None) -> Diagnosis | None:
        """The reason for the job's last restart, even if it has ended since."""

    def exists(self) -> bool:
        """Whether the job is there: it may be removed while it is followed."""

    def is_removed(self) -> bool:
        """Whether the job is gone, or is about to be because it was removed."""

    def is_over(self) -> bool:
        """Whether nothing more is to be expected."""

    def revive(self) -> bool:
        """Restarts a runner that died; returns whether there was one."""

    def close(self) -> None: ...


class Pace:
    """Paces the looks: a short pause at first, and a long one when nothing happens."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begin = self._newest = clock()

    def pause(self, news: bool) -> float:
        """The seconds until the next look, given whether this one found something."""
        now = self._clock()
        if news:
            self._newest = now
        if now - self._begin < YOUNG:
            return SOON
        return LATER if now - self._newest < QUIET else SELDOM


class FoundJob(Protocol):
    """One job in its place, and what can be done with it."""

    @property
    def id(self) -> str:
        """The name that verbs take."""

    @property
    def key(self) -> str:
        """Names this very job for ever."""

    def view(self) -> JobView: ...
    def watch(self, choice: LogSelection = EVERYTHING) -> Following: ...
    def attending(self) -> AbstractContextManager[None]:
        """Says while it lasts that a person follows at the terminal and can answer the job."""

    def stacks(self, rank: int | None) -> tuple[RankStack, ...]:
        """The present Python stack of each rank, or of one."""

    def replica(self, given: str | int) -> str:
        """The full name of a replica that is given by its rank, or by its name, short or full."""

    def checkpoints_at(self) -> str:
        """The folder or the object store in which its script keeps its checkpoints."""

    def python(self, environ: Mapping[str, str]) -> str:
        """The interpreter of this machine that goes with it."""

    def curves(self) -> Curves:
        """The numbers that it reported, to be read and followed."""

    def stop(self) -> JobView: ...
    def resume(self) -> JobView: ...
    def scale(self, replicas: Mapping[str, int]) -> JobView: ...
    def remove(self) -> None: ...


class Started(Struct, frozen=True):
    """A job that was just started."""

    found: FoundJob
    notes: tuple[str, ...] = ()


class JobBackend(Protocol):
    """Where jobs are."""

    @property
    def backend(self) -> BackendName: ...
    def start(self, batch: SubmissionBatch) -> tuple[Started, ...]:
        """Starts every job of a batch or, if one cannot run there, none."""

    def checked(self, batch: SubmissionBatch) -> CheckView:
        """Says what stands in the way of running the jobs there; starts nothing."""

    def jobs(self, all: bool) -> tuple[JobSummary, ...]: ...
    def find(self, name: str) -> FoundJob:
        """The job that a name means; raises BadInput if there is none."""


def backend_of(written: str, source: str) -> BackendName:
    """What `--on` or BIREME_ON says."""
    try:
        return BackendName(written)
    except ValueError:
        known = " or ".join(str(backend) for backend in BackendName)
        raise errors.BadInput(f"{source} {written!r} is no backend", hint=f"it is {known}") from None
