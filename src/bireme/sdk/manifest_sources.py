"""Reads manifests: files, folders, standard input, texts.

Apart, because reading YAML takes a while to import, and a script needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bireme import errors
from bireme.manifest.problems import Complaints
from bireme.manifest.text import source
from bireme.manifest.text.nodes import Document

STDIN = "-"


def documents(
    manifests: Sequence[str | Path],
    stdin: Callable[[int], bytes] | None = None,
    complaints: Complaints | None = None,
) -> list[Document]:
    """Reads files, folders and texts of several lines in the order given.

    `-` is standard input, asked for so many bytes. What is wrong with a file is raised, or
    added to complaints.
    """
    if manifests.count(STDIN) > 1:
        raise errors.BadInput("standard input can be read only once", hint="give `-f -` once")
    found: list[Document] = []
    for manifest in manifests:
        if manifest == STDIN and stdin is not None:
            found += source.read_text(stdin(source.MOST_BYTES + 1), "<stdin>")
        elif isinstance(manifest, str) and "\n" in manifest:
            found += source.read_text(manifest, "<text>")
        else:
            found += source.read_path(Path(manifest), complaints)
    return found
