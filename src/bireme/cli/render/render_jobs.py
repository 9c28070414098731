"""Shows jobs in a list and one by one. Pure."""

from __future__ import annotations

import time

from bireme.cli.render import render_diagnosis, render_machine, render_progress, text
from bireme.model.pods import Resources
from bireme.model.quantities import show_cpu, show_memory
from bireme.model.status import Phase
from bireme.sdk.views import JobList, JobView

_SPARE = ("KIND", "RESTARTS", "AGE", "READY", "WHERE")
"""What a list does without where there is little room, in this order."""
MOST_EVENTS = 20
"""The newest; `--json` has them all."""


def listed(jobs: JobList, now: float, columns: int | None) -> list[str]:
    """A table of jobs, and below it a line on the warm interpreters and their memory."""
    header = ["NAME", "KIND", "PHASE", "READY", "RESTARTS", "AGE", "WHY"]
    rows: list[list[str]] = []
    for job in jobs.jobs:
        ready, age = "-" if job.is_over else job.workers, text.age(job.age(now))
        rows.append([job.id, job.kind, str(job.phase), ready, str(job.restarts), age, job.why])
    if any(job.progress is not None for job in jobs.jobs):
        header.insert(-1, "PROGRESS")
        cells = [render_progress.cell(job.progress, job.phase is Phase.RUNNING, now) for job in jobs.jobs]
        rows = [[*row[:-1], cell, row[-1]] for row, cell in zip(rows, cells, strict=True)]
    if any(job.context or job.namespace for job in jobs.jobs):
        header.insert(1, "WHERE")
        rows = [[row[0], job.where, *row[1:]] for row, job in zip(rows, jobs.jobs, strict=True)]
    lines = text.sheet(header, rows, columns, _SPARE, regained=("READY", "AGE", "WHERE"), keeps=True)
    if not jobs.warm:
        return lines
    warm = render_machine.warm_line(jobs.warm)
    return [*lines, *([""] if lines else []), warm if columns is None else text.cut(warm, columns)]


def shown(job: JobView, now: float, columns: int | None = None) -> list[str]:
    """Everything about a job, the question that matters first."""
    ready = "" if job.is_over else f"  {job.workers} ready"
    lines = [
        *text.hanging("", f"{job.id}  {job.kind}  {job.phase}{ready}", columns),
        *(
            line
            for name, value in _facts(job, now)
            for line in text.hanging(f"  {name:<10} ", value, columns)
        ),
        "",
        *_replicas(job, now, columns),
    ]
    if job.conditions:
        rows = [
            (
                str(condition.type),
                "yes" if condition.status else "no",
                moment(condition.changed),
                condition.message,
            )
            for condition in job.conditions
        ]
        lines += ["", *text.sheet(("CONDITION", "HOLDS", "SINCE", "MESSAGE"), rows, columns, wraps=True)]
    if job.events:
        lines += ["", *_events(job, columns)]
    if job.diagnosis is not None:
        lines += ["", *render_diagnosis.lines(job.diagnosis, kept(job, now))]
    if job.why and (job.diagnosis is None or job.phase is Phase.RUNNING):
        lines += ["", *text.hanging("", f"{job.id}: {job.why}", columns)]
    return lines


def kept(job: JobView, now: float) -> list[str]:
    """Names the checkpoint that a failed job can continue from, and the command."""
    checkpoint = job.checkpoint
    if job.phase is not Phase.FAILED or checkpoint is None:
        return []
    saved = f", saved {text.duration(max(0.0, now - checkpoint.saved))} ago" if checkpoint.saved else ""
    line = f"Its newest checkpoint is of step {checkpoint.step}{saved} in {checkpoint.where}"
    again = f"bireme resume {job.id}" if job.resumable else f"bireme run ... --from {checkpoint.where}"
    return [line, f"Continue from it: {again}"]


def amount(resources: Resources) -> str:
    """The requested amount: `2 cpu, 4 GiB, 1 nvidia.com/gpu`."""
    parts = []
    if resources.cpu is not None:
        parts.append(show_cpu(resources.cpu))
    if resources.memory is not None:
        parts.append(show_memory(resources.memory))
    parts += [f"{count} {name}" for name, count in resources.devices.items()]
    return ", ".join(parts)


def scaled(before: JobView, after: JobView) -> list[str]:
    """Says what scaling has changed: ranks of a script, or replicas by role."""
    if after.counts_ranks:
        if before.total == after.total:
            return [f"nothing to change: it has {after.total} ranks in all"]
        return [f"from {before.total} to {after.total} ranks"]
    was = {role.name: role.replicas for role in before.roles}
    counts = [(role.name, was.get(role.name, 0), role.replicas) for role in after.roles]
    return [f"{name} from {old} to {new}" for name, old, new in counts if old != new] or ["nothing to change"]


def moment(at: float) -> str:
    """A time on this machine's clock."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (ValueError, OverflowError, OSError):  # what a damaged file says was no time
        return "at an unknown time"


def _facts(job: JobView, now: float) -> list[tuple[str, str]]:
    limit = "any number" if job.crash_limit is None else job.crash_limit
    earlier = f", and {job.forgiven} before it got further or was resumed" if job.forgiven else ""
    crashes = f"{job.crashes - job.forgiven} of {limit} tolerated{earlier}"
    evictions = f"{job.evictions} of {job.eviction_limit} tolerated"
    roles = ", ".join(f"{role.replicas} {role.type}" for role in job.roles)
    # Here a rank without requests counts as one cpu; a cluster's scheduler counts it as nothing.
    nothing = "nothing is asked for" if job.context else "one cpu each, as nothing is asked for"
    checkpoint = ""
    if job.checkpoint is not None:
        newest = job.checkpoint
        saved = f", {text.duration(max(0.0, now - newest.saved))} ago" if newest.saved else ""
        checkpoint = f"step {newest.step}{saved}, {newest.where}"
    facts = [
        ("command", " ".join(job.command)),
        ("resources", f"{roles}: {amount(job.resources) or nothing}"),
        ("created", f"{moment(job.created)} ({text.duration(now - job.created)} ago) on {job.host}"),
        *render_progress.facts(job.progress, job.phase is Phase.RUNNING, now),
        ("ran", "" if job.ran is None else text.duration(job.ran)),
        ("attempt", str(job.attempt + 1)),
        ("crashes", crashes if job.crashes else ""),
        ("evictions", evictions if job.evictions else ""),
        ("checkpoint", checkpoint),
        ("folder", job.cwd),
        ("python", job.python),
        ("files", job.folder),
    ]
    return [(name, value) for name, value in facts if value]


def _replicas(job: JobView, now: float, columns: int | None) -> list[str]:
    rows = [
        (
            replica.short,
            "-" if replica.rank is None else str(replica.rank),
            str(replica.phase),
            "yes" if replica.ready else "no",
            str(replica.restarts),
            "-" if replica.exit_code is None else str(replica.exit_code),
            replica.host if job.context else "-" if replica.pid is None else str(replica.pid),
            "-" if replica.started is None else text.age((replica.ended or now) - replica.started),
            replica.message or replica.reason,
        )
        for replica in job.replicas
    ]
    place = "NODE" if job.context else "PID"
    header = ("REPLICA", "RANK", "PHASE", "READY", "RESTARTS", "EXIT", place, "RAN", "MESSAGE")
    return text.sheet(header, rows, columns, ("PID", "RANK", "RESTARTS", "READY", "RAN"), wraps=True)


def _events(job: JobView, columns: int | None) -> list[str]:
    newest = job.events[-MOST_EVENTS:]
    rows = [
        (
            moment(event.time),
            str(event.type),
            event.reason,
            event.message + (f" (x{event.count})" if event.count > 1 else ""),
        )
        for event in newest
    ]
    lines = text.sheet(("EVENT", "TYPE", "REASON", "MESSAGE"), rows, columns, ("TYPE", "REASON"), wraps=True)
    left_out = len(job.events) - len(newest)
    return [*lines, f"{left_out} older ones: bireme show {job.id} --json"] if left_out else lines
