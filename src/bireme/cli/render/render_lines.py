"""Shows a log line, the status line, and the stacks of ranks. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bireme.cli.render import text
from bireme.model.job import Job
from bireme.sdk import rank_names
from bireme.sdk.views import Glance, JobStacks, LogLine


class Prefixes:
    """Says which replica printed a line, where there are several; keeps each one's colour."""

    def __init__(self, jobs: Sequence[Job], *, colour: bool, terminal: bool) -> None:
        """A program that reads a log gets it as it is; at a terminal no line may command it."""
        self._several_jobs = len(jobs) > 1
        self._needed = self._several_jobs or any(not rank_names.is_alone(job) for job in jobs)
        # The longest name first, because the name of one job may begin with that of another.
        self._jobs = sorted(jobs, key=lambda job: -len(job.name))
        self._mains = {role.main for job in jobs for role in job.roles}
        self._labels: dict[str, str] = {}
        self._colour = colour
        self._terminal = terminal
        self._colours: dict[str, str] = {}

    def line(self, line: LogLine) -> str:
        """The line as it is printed."""
        sidecar = line.container not in self._mains
        if not self._needed and not sidecar:
            return self.bare(line)
        name = self._labels.get(line.replica) or self._labels.setdefault(
            line.replica, self._label(line.replica)
        )
        if sidecar:
            name = f"{name}/{line.container}"
        name = text.plain(name)
        code = self._colours.setdefault(name, text.COLOURS[len(self._colours) % len(text.COLOURS)])
        return f"{text.coloured(f'[{name}]', code, self._colour)} {self.bare(line)}"

    def bare(self, line: LogLine) -> str:
        """The line without saying whose it is."""
        return text.log_line(line.text, colour=self._colour) if self._terminal else line.text

    def _label(self, replica: str) -> str:
        job = next((known for known in self._jobs if replica.startswith(f"{known.name}-")), None)
        if job is None:
            return replica
        label = rank_names.label(job, replica)
        if not self._several_jobs:
            return label
        return f"{job.name} {label}" if rank_names.counts_ranks(job) else replica


def status_line(glances: Sequence[Glance], last: str, elapsed: float) -> str:
    """Phase, replicas, elapsed time and the last line; the screen cuts it to its width."""
    # What a job waits for stands where its last line would: there is none yet, or it is old.
    notes = [job.waiting or job.trouble for job in glances if job.waiting or job.trouble]
    note = notes[0] if notes and len(notes) == len(glances) else last
    if len(glances) == 1:
        job = glances[0]
        tries = f" (attempt {job.attempt + 1})" if job.attempt else ""
        state = f"{job.id}  {job.phase} {job.ready}/{job.total}{tries}"
    else:
        phases = Counter(str(job.phase) for job in glances)
        state = f"{len(glances)} jobs: " + ", ".join(f"{count} {phase}" for phase, count in phases.items())
    parts = [state, text.clock(elapsed), note]
    return "  ".join(part for part in parts if part)


def stack_lines(found: JobStacks) -> list[str]:
    """A line for each rank, so that they can be compared, and then their stacks."""
    lines = [
        f"{rank.title}  {rank.where or rank.problem or 'it runs no Python code'}" for rank in found.ranks
    ]
    for rank in found.ranks:
        if rank.threads:
            lines += ["", f"{rank.title}, process {rank.pid}:"]
            lines += [f"  {line}" for thread in rank.threads for line in thread]
    return lines
