"""Which manifests do `check` and `render` read."""

from __future__ import annotations

import sys

import click

from bireme import errors
from bireme.sdk import orders, sources
from bireme.sdk.client import Client
from bireme.sdk.orders import Given, Ordered

files = click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="A manifest: file, folder, or - for standard input.",
)
more = click.argument("more", nargs=-1, metavar="[FILE...]")


def ordered(client: Client, files: tuple[str, ...], more: tuple[str, ...]) -> Ordered:
    """Reads them all together, so that one may refer to another."""
    chosen = (*files, *more)
    if not chosen:
        raise errors.BadInput("no manifest is given", hint="name a file: -f job.yaml")
    documents = sources.documents(chosen, lambda size: sys.stdin.buffer.read(size))
    return orders.of_documents(documents, Given(), client.scene())
