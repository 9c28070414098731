"""Reads the manifests of `check` and `render`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import click

from bireme import errors
from bireme.sdk.client import Client
from bireme.sdk.submissions import RunOptions, SubmissionBatch

files = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A manifest: file, folder, or - for standard input.",
)
more = click.argument("more", nargs=-1, metavar="[FILE...]")


class Read(NamedTuple):
    """The jobs found in manifests, and the errors of the others."""

    batch: SubmissionBatch
    refused: tuple[errors.BadManifest, ...]


def batch(client: Client, files: tuple[str, ...], more: tuple[str, ...]) -> SubmissionBatch:
    """Reads manifests; what is wrong with all of them is reported together."""
    found = read(client, files, more)
    if found.refused:
        raise together(found.refused)
    return found.batch


def read(client: Client, files: tuple[str, ...], more: tuple[str, ...]) -> Read:
    """Reads each by itself, because two of them may hold the same job."""
    chosen = (*files, *more)
    if not chosen:
        raise errors.BadInput("no manifest is given", hint="name a file: -f job.yaml")
    found: list[SubmissionBatch] = []
    refused: list[errors.BadManifest] = []
    for file in chosen:
        try:
            found.append(client.prepare([file], RunOptions(), stdin=lambda size: sys.stdin.buffer.read(size)))
        except errors.BadManifest as error:
            refused.append(error)
    every = SubmissionBatch(
        submissions=tuple(submission for batch in found for submission in batch.submissions),
        read=tuple(read for batch in found for read in batch.read),
        warnings=tuple(warning for batch in found for warning in batch.warnings),
        beside=tuple(beside for batch in found for beside in batch.beside),
    )
    return Read(every, tuple(refused))


def together(refused: Sequence[errors.BadManifest]) -> errors.BadManifest:
    if len(refused) == 1:
        return refused[0]
    return errors.BadManifest.of(
        [diagnostic for error in refused for diagnostic in error.diagnostics],
        hint=next((error.hint for error in refused if error.hint), ""),
        warnings=[warning for error in refused for warning in error.warnings],
    )
