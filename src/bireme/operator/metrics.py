"""Counts jobs, pods, requests and steps, in Prometheus' text form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from bireme import kinds
from bireme.model.job import Job
from bireme.model.status import Phase, Status

Labels = tuple[tuple[str, str], ...]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Family(NamedTuple):
    type: str
    help: str
    samples: Callable[[], Iterable[tuple[Labels, float]]]


class Counter:
    """Counts by labels; it only grows."""

    def __init__(self) -> None:
        self._values: dict[Labels, float] = {}

    def add(self, by: float = 1, /, **labels: str) -> None:
        key = tuple(labels.items())
        self._values[key] = self._values.get(key, 0) + by

    def samples(self) -> Iterable[tuple[Labels, float]]:
        return self._values.items()


class Metrics:
    """Everything that the operator counts.

    The names that begin with `training_operator_` are those of the Kubeflow operator, so that dashboards
    made for it continue to work.
    """

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self.created = self._counter("training_operator_jobs_created_total", "Jobs seen for the first time")
        self.deleted = self._counter("training_operator_jobs_deleted_total", "Jobs deleted")
        self.succeeded = self._counter("training_operator_jobs_successful_total", "Jobs that succeeded")
        self.failed = self._counter("training_operator_jobs_failed_total", "Jobs that failed")
        self.restarted = self._counter("training_operator_jobs_restarted_total", "Restarts of jobs")
        self.steps = self._counter("bireme_steps_total", "Steps taken, by how they ended")
        self.step_seconds = self._counter("bireme_step_seconds_total", "Time spent in steps")

    def recorded(self, job: Job, before: Status, after: Status) -> None:
        """Count what a change of a job's status tells."""
        labels = {"job_namespace": job.namespace, "framework": kinds.of(job).framework}
        if after.phase is not before.phase:
            if after.phase is Phase.SUCCEEDED:
                self.succeeded.add(**labels)
            elif after.phase is Phase.FAILED:
                self.failed.add(**labels)
        lost = after.crashes + after.evictions - before.crashes - before.evictions
        if lost > 0 and not after.phase.is_final:
            self.restarted.add(**labels)

    def show(self, name: str, help: str, value: Callable[[], float]) -> None:
        """Show a value as it is when it is read."""
        self._families[name] = _Family("gauge", help, lambda: [((), value())])

    def total(self, name: str, help: str, value: Callable[[], float]) -> None:
        """Show a count that is kept elsewhere."""
        self._families[name] = _Family("counter", help, lambda: [((), value())])

    def count(self, name: str, help: str, label: str, values: Callable[[], Mapping[str, int]]) -> None:
        """Show counts that are kept elsewhere, by one label."""
        self._families[name] = _Family(
            "counter", help, lambda: [(((label, key),), number) for key, number in values().items()]
        )

    def text(self) -> str:
        lines = []
        for name, family in self._families.items():
            lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.type}"]
            for labels, value in family.samples():
                pairs = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels)
                lines.append(f"{name}{{{pairs}}} {value:g}" if pairs else f"{name} {value:g}")
        return "\n".join([*lines, ""])

    def _counter(self, name: str, help: str) -> Counter:
        counter = Counter()
        self._families[name] = _Family("counter", help, counter.samples)
        return counter
