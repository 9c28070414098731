"""Finds the job that a name means: on this machine, or in a cluster that its user has used.

A verb that is about this machine alone imports nothing of Kubernetes: clusters are reached when they are
named, by `--on` or BIREME_ON, or when the user has started jobs there before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bireme import errors
from bireme.model.status import Phase
from bireme.sdk.backends import VARIABLE, BackendName, FoundJob, JobBackend, Where, backend_of
from bireme.sdk.cluster.clusters import Book, Known
from bireme.sdk.local.local_backend import LocalPlace
from bireme.sdk.views import JobSummary

if TYPE_CHECKING:
    from bireme.sdk.cluster.cluster_backend import ClusterPlace

_MOST_CANDIDATES = 5
PATIENCE = 2.0
"""Seconds for which a list waits for a cluster that was not named."""


class Places:
    """The places of a user: this machine, and clusters."""

    def __init__(self, home: Path, environ: Mapping[str, str], where: Where) -> None:
        self.local = LocalPlace(home)
        self.unreached: tuple[str, ...] = ()
        self._home = home
        self._environ = environ
        self._where = where
        self._book = Book(home)
        self._opened: dict[Known | None, ClusterPlace] = {}
        usual = environ.get(VARIABLE, "")
        self._usual = backend_of(usual, VARIABLE) if usual else BackendName.LOCAL
        on = backend_of(where.on, "--on") if where.on else None
        if on is BackendName.LOCAL and where.names_a_cluster:
            raise errors.BadInput(
                "a context and a namespace are of a cluster, and --on local is given",
                hint="leave them out, or say --on kubernetes",
            )
        self._on = on or (BackendName.KUBERNETES if where.names_a_cluster else None)

    @property
    def backend(self) -> BackendName:
        """The backend on which jobs are started."""
        return self._on or self._usual

    def chosen(self) -> JobBackend:
        """The place in which jobs are started."""
        return self.cluster() if self.backend is BackendName.KUBERNETES else self.local

    def cluster(self) -> ClusterPlace:
        """The cluster that is named, or the one that kubectl would use."""
        return self._open(None)

    def jobs(self, all: bool) -> tuple[JobSummary, ...]:
        """The jobs of every place that is to be looked at, the newest first."""
        self.unreached = ()
        if self._on is BackendName.LOCAL:
            return self.local.jobs(all)
        if self._on is BackendName.KUBERNETES:
            return _named(self.cluster().jobs(all))
        here = self.local.jobs(all)
        clusters = self._clusters()
        if not clusters:
            return here
        from concurrent.futures import ThreadPoolExecutor  # here, because most users have no cluster

        with ThreadPoolExecutor(len(clusters)) as pool:
            there = list(pool.map(lambda known: self._listed(known, all), clusters))
        found = _named((*here, *(job for jobs in there for job in jobs)))
        return tuple(sorted(found, key=lambda job: job.created, reverse=True))

    def recent(self, ended: int) -> tuple[tuple[JobSummary, ...], int]:
        """The jobs that have not ended and the last few that have, and how many more have ended."""
        self.unreached = ()
        if self._is_local:
            return self.local.recent(ended)
        found = self.jobs(all=True)
        over = [job.key for job in found if job.is_over]
        kept = set(over[:ended])
        return tuple(job for job in found if not job.is_over or job.key in kept), len(over) - len(kept)

    def names(self) -> tuple[str, ...]:
        """What the jobs are called that are known without asking a cluster."""
        here = [job.id for job in self.local.jobs(all=True)]
        return tuple(dict.fromkeys([*here, *(name for known in self._book.read() for name in known.names)]))

    def find(self, name: str) -> FoundJob:
        """The job of this name, else the only one whose name begins so.

        `kind/name` is a job of a cluster, `name#2` a run of this machine.
        """
        try:
            return self.exact(name)
        except errors.BadInput:  # a cluster that is silent may have the job of this very name
            begin, mark, number = name.partition("#")
            found = self._beginning(begin)
            if not found or begin in found:
                raise
        if len(found) > 1:
            raise errors.BadInput(
                f"{len(found)} jobs begin with {begin}: {_some(found)}", hint="write more of the name"
            )
        return self.exact(f"{found[0]}{mark}{number}")

    def exact(self, name: str) -> FoundJob:
        """The job of this very name."""
        if self._on is BackendName.LOCAL or "#" in name:
            return self.local.find(name)
        if self._on is BackendName.KUBERNETES:
            return self.cluster().find(name)
        remembered = next((known for known in self._book.read() if name in known.names), None)
        if "/" not in name and self.local.has(name):
            if remembered is None or not self._is_there(remembered, name):
                return self.local.find(name)
            raise errors.BadInput(
                f"there are two jobs {name}: one on this machine, one in {remembered.where}",
                hint="say which one: --on local, or --on kubernetes",
            )
        return self._in_clusters(name, remembered)

    def named(self, name: str) -> FoundJob:
        """The job of this very name; the error says which ones begin so."""
        try:
            return self.exact(name)
        except errors.BadInput as error:
            begin = name.partition("#")[0]
            found = self._beginning(begin)
            if not found or begin in found:
                raise
            raise errors.BadInput(
                f"there is no job {name}; so begin{'s' if len(found) == 1 else ''} {_some(found)}",
                hint="write the name in full",
            ) from error

    def newest(self, wanted: Callable[[Phase], bool]) -> FoundJob | None:
        """The job that was started last, of those in such a phase; the user's own come first."""
        if self._is_local:
            return self.local.newest(wanted)
        found = self._wanted(wanted)
        mine = [job for job in found if self._is_own(job)]
        return self.exact((mine or found)[0].key) if found else None

    def newest_own(self, wanted: Callable[[Phase], bool]) -> FoundJob | None:
        """The job that this user started last, of those in such a phase; None if there is none."""
        if self._is_local:
            return self.local.newest(wanted)
        found = next((job for job in self._wanted(wanted) if self._is_own(job)), None)
        return self.exact(found.key) if found is not None else None

    @property
    def _is_local(self) -> bool:
        """Whether this machine alone is looked at."""
        return self._on is BackendName.LOCAL or (self._on is None and not self._clusters())

    def _wanted(self, wanted: Callable[[Phase], bool]) -> list[JobSummary]:
        return [job for job in self.jobs(all=True) if wanted(job.phase) and job.is_here]

    def _is_own(self, job: JobSummary) -> bool:
        """Whether a job was started from this home: a namespace may be shared."""
        return job.backend == BackendName.LOCAL or any(
            (known.context, known.namespace) == (job.context, job.namespace) and job.name in known.names
            for known in self._book.read()
        )

    def _beginning(self, begin: str) -> list[str]:
        """The names that begin so, those of this machine first, the newest first."""
        if not begin or "/" in begin:
            return []
        here = () if self._on is BackendName.KUBERNETES else self.local.names()
        there: list[str] = []
        if self.backend is BackendName.KUBERNETES:
            with suppress(errors.BiremeError):  # why it does not answer was said already
                there += self.cluster().names(PATIENCE)
        if self._on is None:
            there += [name for known in self._book.read() for name in known.names]
        return [name for name in dict.fromkeys([*here, *there]) if name.startswith(begin)]

    def _clusters(self) -> list[Known | None]:
        """The clusters that were not named and are looked at nevertheless; None is the usual one."""
        for cluster in self._book.read():
            if cluster.is_lost:
                self._book.drop(cluster)
        known: list[Known | None] = list(self._book.read())
        if self._usual is not BackendName.KUBERNETES:
            return known
        usual = self.cluster().known
        return [None, *(cluster for cluster in known if cluster is not None and not cluster.is_same(usual))]

    def _in_clusters(self, name: str, remembered: Known | None) -> FoundJob:
        places = [remembered] if remembered is not None else self._clusters()
        if not places:
            return self.local.find(name)
        silent: list[errors.BiremeError] = []
        for known in places:
            try:
                return self._open(known).find(name)
            except errors.BadInput:
                if known is not None and known is remembered:
                    self._book.forget(known, name)
            except (errors.Unreachable, errors.NoAccess) as error:
                silent.append(error)
        if silent:
            raise silent[0]
        if "/" in name:
            raise errors.BadInput(
                f"there is no job {name}", hint="`bireme ps --all --on kubernetes` lists those of a cluster"
            )
        return self.local.find(name)  # which says that there is none, and what is near

    def _is_there(self, known: Known, name: str) -> bool:
        """Whether a job that was started in a cluster still is; a silent cluster counts as without it."""
        try:
            self._open(known).find(name, PATIENCE)
        except errors.BadInput:
            self._book.forget(known, name)
            return False
        except errors.BiremeError:
            return False
        return True

    def _listed(self, known: Known | None, all: bool) -> tuple[JobSummary, ...]:
        """The jobs of a cluster that was not named: one that does not answer costs a sentence."""
        try:
            return self._open(known).jobs(all, PATIENCE)
        except errors.BiremeError as error:
            where = "the cluster" if known is None else known.where
            sentence = f"{where} is left out: {error.what.splitlines()[0]}"
            self.unreached = (*self.unreached, sentence)
            return ()

    def _open(self, known: Known | None) -> ClusterPlace:
        if known not in self._opened:
            # Here, because most verbs are about this machine, and need none of it.
            from bireme.sdk.cluster import cluster_backend

            where = self._where
            if known is not None:
                where = replace(
                    where, context=known.context, namespace=known.namespace, kubeconfig=known.kubeconfig
                )
            self._opened[known] = cluster_backend.opened(self._home, self._environ, where)
        return self._opened[known]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_CANDIDATES} more" if len(names) > _MOST_CANDIDATES else ""
    return ", ".join(names[:_MOST_CANDIDATES]) + more


def _named(jobs: tuple[JobSummary, ...]) -> tuple[JobSummary, ...]:
    """Gives jobs of one name ids that tell them apart."""
    times = Counter(job.name for job in jobs if job.backend == BackendName.KUBERNETES)
    here = {job.name for job in jobs if job.backend == BackendName.LOCAL}
    return tuple(
        replace(job, id=f"{job.kind.lower()}/{job.name}")
        if job.backend == BackendName.KUBERNETES and (times[job.name] > 1 or job.name in here)
        else job
        for job in jobs
    )
