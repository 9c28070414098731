"""Makes a job a run: checks it against this machine, writes it down, and starts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bireme import errors, kinds
from bireme.backends.local import processes, run_environment
from bireme.backends.local.preflight import fit, gpus, missing, overrides, provenance, python_finder
from bireme.backends.local.preflight.missing import Around, MissingInput
from bireme.core.machine import admission, warm_starts
from bireme.core.replicas import wiring
from bireme.model.decisions import Demand
from bireme.model.job import Job, RestartScope, replica_ids
from bireme.runner import standby
from bireme.runs import directory, machine
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import Desired, ReferencedValues, RunContext, RunOptions

LINGER = 30.0
"""Seconds that replicas may outlive a success here: a parameter server never ends by itself."""
_MOST_LACKING = 8


class Submission(Struct, frozen=True, kw_only=True):
    """Everything that a submission says."""

    job: Job
    manifest: dict[str, object]
    references: ReferencedValues = ReferencedValues()
    options: RunOptions = RunOptions()
    """With absolute paths."""
    cwd: str = "."
    """The folder that the job runs in, and that its own relative paths are meant from."""
    environ: Mapping[str, str] = {}
    script: str = ""
    """The script, where no manifest names an image."""


class Submitted(Struct, frozen=True):
    run: RunDirectory
    notes: tuple[str, ...]
    """What a person should know: what is not used here, what was changed, what is capped."""


def check(home: Path, submission: Submission) -> tuple[Job, tuple[str, ...]]:
    """Make the job one that this machine can run, or raise all that stands in the way; nothing is started."""
    options = submission.options
    warm_starts.check_limit(submission.environ)
    job = overrides.applied(submission.job, options)
    notes: list[str] = []
    interpreter = python_finder.find(submission.environ, options.python)
    around = Around(
        overrides=options,
        cwd=submission.cwd,
        references=run_environment.references(submission.references),
        path=python_finder.search_path(submission.environ, interpreter),
        claims=run_environment.claims(home),
        python=interpreter,
    )
    capacity = gpus.capacity()
    if options.fits:
        job, changes = fit.shrunk(job, capacity)
        notes += changes
    lacking = missing.refusals(job, around)
    impossible = admission.never_fits(capacity, _demands(job))
    if lacking:
        raise _lacks(job, [*_empty(job, around), *lacking], impossible)
    if impossible:
        raise _no_room(submission, impossible, _empty(job, around))
    capped = admission.capped(capacity, _demands(job))[1]
    if capped:
        notes.append(capped)
    images = overrides.images(job)
    if images and not submission.script:
        named = images[0] if len(images) == 1 else f"{images[0]} and {len(images) - 1} more"
        notes.append(
            f"the image {named} is not used here: its files come from --map, its entrypoint from --command, "
            "its interpreter from --python"
        )
    for claim, folder in missing.empty_claims(job, around).items():
        flags = " ".join(missing.volume_flags(claim, job, around))
        notes.append(
            f"nothing supplies claim {claim}: it is the empty folder {folder}; supply it with {flags}"
        )
    return job, tuple(notes)


def together(refused: Sequence[errors.BiremeError]) -> errors.BiremeError:
    """One error for the jobs of a manifest that cannot run; what they lack is supplied by its flags."""
    lacking = [error for error in refused if error.flags]
    if len(lacking) < 2:
        return refused[0]
    return _supplied_by(
        "\n".join(error.what for error in lacking),
        dict.fromkeys(pair for error in lacking for pair in errors.options(error.flags)),
        dict.fromkeys(way for error in refused for way in error.by_hand),
    )


def require_room(job: Job, hint: str) -> None:
    """Raise what keeps the job from ever fitting on this machine, if something does."""
    impossible = admission.never_fits(gpus.capacity(), _demands(job))
    if impossible:
        raise errors.NoRoom(
            f"{job.kind} {job.name} can never fit on this machine: it {impossible}", hint=hint
        )


def lack_now(run: RunDirectory, job: Job, now: float) -> str:
    """What a gang that runs would wait for if it began anew as this job; nothing where none would stop."""
    from bireme.runs.ledger import Ledger  # here: it imports SQLite, and a submission does without

    ledger = Ledger(run.home, gpus.capacity)
    runs_now = any(claim.run == run.id for claim in ledger.holders())
    if job.unit is not RestartScope.GANG or not runs_now:
        return ""
    return ledger.lack(run.id, _demands(job), now)


def submit(home: Path, submission: Submission, uid: str, now: float) -> Submitted:
    """Check the job, create its run, and start its runner."""
    job, notes = check(home, submission)
    policy = job.policy
    if policy.linger is None:
        # Replicas may outlive a success; placeholders have nothing to finish.
        is_placeholder = kinds.of(submission.job).is_placeholder
        idles = any(is_placeholder(submission.job, role) for role in submission.job.roles)
        policy = replace(policy, linger=0.0 if idles else LINGER)
    job = replace(job, uid=uid, policy=policy)
    folder = Path(submission.cwd).absolute()
    context = RunContext(
        cwd=str(folder),
        python=python_finder.find(submission.environ, submission.options.python),
        machine=machine.this_machine(),
        created=now,
        environment=processes.without_marks(submission.environ),
        options=submission.options,
        references=submission.references,
        code=provenance.hashes(folder, job),
    )
    run, lock = directory.create(home, Desired(job, submission.manifest), context)
    standby.start(run, lock, stdin=submission.options.stdin)
    return Submitted(run, notes)


def _demands(job: Job) -> tuple[Demand, ...]:
    asked = (wiring.demand(job, member, frozenset()) for member in replica_ids(job))
    return tuple(demand for demand in asked if demand is not None)


def _empty(job: Job, around: Around) -> list[MissingInput]:
    """Claims that would be empty. They stop no job: it may be the one that fills them."""
    return [
        MissingInput(
            "", f"nothing supplies claim {claim}, which is empty", missing.volume_flags(claim, job, around)
        )
        for claim in missing.empty_claims(job, around)
    ]


def _lacks(job: Job, lacking: list[MissingInput], impossible: str) -> errors.BadInput:
    """All that is missing in one error, whose flags supply all of it."""
    if impossible:
        lacking = [*lacking, MissingInput("", f"it {impossible}", ("--fit",))]
    # A volume of several roles, or a script in an empty claim, is supplied by one and the same option.
    flags = dict.fromkeys(item.flags for item in lacking if item.flags)
    lines = [str(item) for item in lacking[:_MOST_LACKING]]
    if more := len(lacking) - len(lines):
        lines.append(f"and {more} more")
    by_hand = dict.fromkeys(item.hint for item in lacking if item.hint and not item.flags)
    what = "\n".join([f"{job.kind} {job.name} cannot run here as it is:", *lines])
    return _supplied_by(what, flags, by_hand)


def _supplied_by(what: str, flags: Iterable[tuple[str, ...]], by_hand: Iterable[str] = ()) -> errors.BadInput:
    words = tuple(word for pair in flags for word in pair)
    error = errors.BadInput(what, hint=f"add {shlex.join(words)}" if words else "")
    error.flags, error.by_hand = words, tuple(by_hand)
    return error


def _no_room(submission: Submission, impossible: str, lacking: list[MissingInput]) -> errors.NoRoom:
    what = f"{submission.job.kind} {submission.job.name} can never fit on this machine: it {impossible}"
    error = errors.NoRoom(
        "\n".join([what, *map(str, lacking)]), hint="ask for less, or let `--fit` shrink it to this machine"
    )
    if not submission.script:
        error.flags = (*(word for item in lacking for word in item.flags), "--fit")
        error.by_hand = tuple(dict.fromkeys(item.hint for item in lacking if item.hint and not item.flags))
    return error
