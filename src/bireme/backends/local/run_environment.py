"""Reads from a run's directory what this machine supplies to it, so that any shell can resume it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bireme import kinds
from bireme.backends.local.programs import RunEnvironment
from bireme.model.pods import RefKind
from bireme.model.replicas import Addresses
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import ReferencedValues
from bireme.runtime import linux


def of(run: RunDirectory) -> RunEnvironment:
    """Everything that the replicas of a run are given here."""
    context, job = run.context(), run.desired().job
    containers = [
        container for role in job.roles for container in (*role.pod.containers, *role.pod.init_containers)
    ]
    is_mounted = (
        any(container.mounts for container in containers)
        or bool(context.options.maps)
        or bool(kinds.of(job).files(job, frozenset(), Addresses()))
    )
    return RunEnvironment(
        run=f"{run.id}.{job.uid}",
        namespace=job.namespace,
        folder=run.path,
        cwd=context.cwd,
        environment=context.environment,
        python=context.python,
        references=references(context.references),
        claims=claims(run.home),
        overrides=context.options,
        crowded=job.total > 1,
        # Only where a rank needs a mount: finding out whether that works costs a process.
        mounts_work=is_mounted and linux.mounts_work(),
    )


def claims(home: Path) -> Path:
    """Where persistent volume claims live that no option names; shared by runs."""
    return home / "claims"


def references(given: ReferencedValues) -> Mapping[tuple[RefKind, str], Mapping[str, str]]:
    """The keys of each ConfigMap and Secret as text."""
    tables = ((RefKind.CONFIG_MAP, given.config_maps), (RefKind.SECRET, given.secrets))
    return {
        (kind, name): {key: value.decode(errors="replace") for key, value in keys.items()}
        for kind, table in tables
        for name, keys in table.items()
    }
