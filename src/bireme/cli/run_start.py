"""Starts what `bireme run` was asked for, and follows it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import NamedTuple

from bireme import errors
from bireme.cli import option_values, terminal
from bireme.cli.invocation import opened, print_json, say
from bireme.sdk.backends import BackendName
from bireme.sdk.client import Client, JobHandle
from bireme.sdk.submissions import RunOptions, Script, SubmissionBatch
from bireme.sdk.views import JobViews


class Asked(NamedTuple):
    """The words of the command line."""

    script: str | None
    args: tuple[str, ...]
    files: tuple[str, ...]
    is_module: bool
    workers: int | None
    gpu: int | None
    cpu: str | None
    memory: str | None
    retries: int | None
    name: str | None
    env: tuple[str, ...]
    map: tuple[str, ...]
    volume: tuple[str, ...]
    command: str | None
    python: str | None
    fit: bool
    cold: bool
    detach: bool
    image: str | None
    continues: str | None
    as_json: bool


def start(asked: Asked) -> None:
    """Submits the script or the manifests, and follows them to the end unless the user detaches."""
    client = opened()
    here = terminal.this_terminal()
    is_here = client.places.backend is BackendName.LOCAL
    alone = not asked.files and (asked.workers or 1) == 1
    reads = is_here and alone and not asked.detach
    at_terminal = reads and here.stdin
    options = RunOptions(
        env=option_values.environment(asked.env),
        maps=option_values.maps(asked.map),
        volumes=option_values.volumes(asked.volume),
        command=option_values.words(asked.command),
        python=asked.python or "",
        image=asked.image or "",
        fits=asked.fit,
        detached=asked.detach,
        warm=not asked.cold,
        stdin=reads and not here.stdin,
        # A single rank may read what its user types: `input()`, `breakpoint()`.
        terminal=terminal.terminal_name() if at_terminal else "",
        continues=asked.continues or "",
    )
    prepare = _prepared_manifests if asked.files else _prepared_script
    batch = prepare(client, asked, options)
    for warning in batch.warnings if is_here else batch.warnings_in_a_cluster:
        say(f"warning: {warning}")
    handles = client.start(batch)
    for note in dict.fromkeys(note for job in handles for note in job.notes):
        say(f"note: {note}")
    if asked.detach:
        _leave(handles, asked)
        return
    from bireme.cli.run_end import conclude  # after the start: the job does not wait for what follows it

    with handles[0].attending() if at_terminal else nullcontext():
        status = conclude(
            handles, here, live=here.stderr and not at_terminal, typed=at_terminal, quiet=asked.as_json
        )
    if asked.as_json:
        _print(handles)
    sys.exit(status)


def _prepared_script(client: Client, asked: Asked, options: RunOptions) -> SubmissionBatch:
    if asked.script is None:
        raise errors.BadInput(
            "there is nothing to run", hint="bireme run train.py --workers 2, or bireme run -f job.yaml"
        )
    if asked.script.endswith((".yaml", ".yml", ".json")) and not asked.is_module:
        raise errors.BadInput(f"{asked.script} is a manifest", hint=f"bireme run -f {asked.script}")
    if asked.command is not None:
        raise errors.BadInput(
            "--command stands for a manifest's entrypoint, and a script needs none",
            hint=f"bireme run {asked.script}",
        )
    script = Script(
        path=asked.script,
        args=asked.args,
        is_module=asked.is_module,
        name=asked.name or "",
        workers=1 if asked.workers is None else asked.workers,
        gpu=asked.gpu or 0,
        cpu=asked.cpu or "",
        memory=asked.memory or "",
        retries=Script(path="").retries if asked.retries is None else asked.retries,
    )
    return client.prepare_script(script, options)


def _prepared_manifests(client: Client, asked: Asked, options: RunOptions) -> SubmissionBatch:
    if asked.script is not None:
        raise errors.BadInput(
            f"both a manifest and {asked.script} are given", hint="give a script, or a manifest with -f"
        )
    for option in ("workers", "gpu", "cpu", "memory", "retries"):
        if getattr(asked, option) is not None:
            raise errors.BadInput(
                f"--{option} is for a script; a manifest says that itself",
                hint="edit the manifest, or let --fit shrink it to this machine",
            )
    if asked.is_module:
        raise errors.BadInput("--module is for a script", hint="bireme run -m package.train")
    return client.prepare(asked.files, options, asked.name or "", lambda size: sys.stdin.buffer.read(size))


def _leave(handles: tuple[JobHandle, ...], asked: Asked) -> None:
    if asked.as_json:
        _print(handles)
        return
    for job in handles:
        print(job.id, flush=True)
        say(f"{job.id} continues in the background; follow it with `bireme logs -f {job.id}`")


def _print(handles: tuple[JobHandle, ...]) -> None:
    print_json(JobViews(jobs=tuple(job.view() for job in handles)))
