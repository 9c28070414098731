"""Which manifests are meant: files, folders, standard input, texts. Apart, because reading YAML takes a while
to import, and a script needs none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bireme import errors
from bireme.manifest.problems import Complaints
from bireme.manifest.text import source
from bireme.manifest.text.nodes import Document

STDIN = "-"


def documents(
    files: Sequence[str], stdin: Callable[[int], bytes], complaints: Complaints | None = None
) -> list[Document]:
    """Reads files and folders in the order given; `-` is standard input, asked for so many bytes.

    What is wrong with one of them is raised, or added to complaints.
    """
    if files.count(STDIN) > 1:
        raise errors.BadInput("standard input can be read only once", hint="give `-f -` once")
    found: list[Document] = []
    for file in files:
        if file == STDIN:
            found += source.read_text(stdin(source.MOST_BYTES + 1), "<stdin>")
        else:
            found += source.read_path(Path(file), complaints)
    return found


def of_text(text: str) -> list[Document]:
    return source.read_text(text, "<text>")
