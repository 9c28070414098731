"""`bireme render`: what does a manifest look like in full."""

from __future__ import annotations

import sys

import click

from bireme.cli import manifests
from bireme.cli.opening import as_json, print_json, say
from bireme.sdk import orders
from bireme.sdk.client import Client
from bireme.sdk.views import ManifestList


@click.command("render", short_help="Print a manifest in full, short form included.")
@manifests.files
@manifests.more
@as_json
def command(files: tuple[str, ...], more: tuple[str, ...], as_json: bool) -> None:
    """Prints manifests with their defaults filled in; a short form becomes the job that it means."""
    found = manifests.ordered(Client(), files, more)
    for warning in found.warnings:
        say(f"warning: {warning}")
    if as_json:
        print_json(ManifestList(manifests=tuple(orders.completed(found))))
    else:
        sys.stdout.write(orders.rendered(found))
