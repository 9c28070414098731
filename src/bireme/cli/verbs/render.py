"""`bireme render`: prints a manifest in full."""

from __future__ import annotations

import sys

import click

from bireme.cli import manifest_arguments
from bireme.cli.invocation import as_json, print_json, say
from bireme.sdk import submissions
from bireme.sdk.client import Client
from bireme.sdk.views import ManifestList


@click.command("render", short_help="Print a manifest in full, short form included.")
@manifest_arguments.files
@manifest_arguments.more
@as_json
def command(files: tuple[str, ...], more: tuple[str, ...], as_json: bool) -> None:
    """Prints manifests with their defaults filled in; a short form becomes the job that it means."""
    found = manifest_arguments.batch(Client(), files, more)
    for warning in found.warnings:
        say(f"warning: {warning}")
    if as_json:
        print_json(ManifestList(manifests=tuple(submissions.completed(found))))
    else:
        sys.stdout.write(submissions.rendered(found))
