"""Builds a tree of the pieces of a text: one at a time, without recursion, within limits."""

from __future__ import annotations

import math
import re
from typing import NoReturn

from msgspec import Struct

from bireme.errors import BadManifest
from bireme.manifest.diagnostics import Diagnostic
from bireme.manifest.text.nodes import Document, Mark, Node, describe, field_path, quoted, quotes_hint
from bireme.manifest.text.yaml_scalars import MERGE_KEY, Scalar

MOST_LEVELS = 100
MOST_NODES = 100_000
MOST_DOCUMENTS = 1_000
MOST_SHOWN = 100
_LONGEST_PATH = 80

# Half of a surrogate pair cannot be written anywhere, and no process takes a NUL in an argument.
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


class Builder:
    """Takes the pieces of one file in their order and makes its documents.

    What is wrong with a piece is noted, so that later faults are found in the same run; what makes reading on
    useless is refused at once. Aliases share the nodes they stand for, but count as if they were written out.
    """

    def __init__(self, file: str) -> None:
        self._file = file
        self._documents: list[Document] = []
        self._diagnostics: list[Diagnostic] = []
        self._begun = 0
        self._nodes = 0
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Part | None] = {}

    def begin(self, mark: Mark) -> None:
        """Begins a document."""
        self._begun += 1
        if self._begun > MOST_DOCUMENTS:
            self.refuse(mark, f"there are more than {MOST_DOCUMENTS:,} documents")
        # A frame below the root, so that the root is placed like any other node.
        self._frames = [_Frame(Node([], Mark(1, 1)), None)]
        self._anchors = {}

    def finish(self) -> None:
        """Ends a document; one that holds nothing is left out, as kubectl does."""
        roots = self._frames[0].node.value
        assert isinstance(roots, list)
        self._documents.extend(Document(self._file, root) for root in roots if root.value is not None)

    def documents(self) -> list[Document]:
        """Returns the documents, or raises BadManifest with everything that was noted."""
        if self._diagnostics:
            raise BadManifest.of(self._diagnostics)
        return self._documents

    def open(self, container: dict[str, Node] | list[Node], mark: Mark, anchor: str | None = None) -> None:
        """Begins a mapping or a list, given empty."""
        self._count(1, mark)
        self._check_levels(1, mark)
        if anchor is not None:
            self._anchors[anchor] = None
        self._frames.append(_Frame(Node(container, mark, self._frames[-1].key_mark), anchor))

    def close(self) -> None:
        """Ends the innermost mapping or list."""
        frame = self._frames.pop()
        if isinstance(frame.node.value, dict):
            for merged in frame.merged:
                for key, node in merged.items():
                    frame.node.value.setdefault(key, node)
        self._finished(_Part(frame.node, frame.size, frame.levels), frame.anchor)

    def scalar(self, value: Scalar, mark: Mark, anchor: str | None = None) -> None:
        """Adds a text, number, boolean or null."""
        self._count(1, mark)
        if isinstance(value, float) and not math.isfinite(value):
            self.error(mark, f"{value} is not a number that a manifest can hold")
        if isinstance(value, str) and (unusable := _UNUSABLE.search(value)):
            self.error(mark, f"the text holds U+{ord(unusable[0]):04X}, which is not a character")
        self._finished(_Part(Node(value, mark, self._frames[-1].key_mark), size=1, levels=0), anchor)

    def merge_key(self, mark: Mark) -> None:
        """Adds an unquoted `<<`: as a key it takes over the entries of its value, elsewhere it is a text."""
        frame = self._frames[-1]
        if not frame.wants_key:
            return self.scalar(MERGE_KEY, mark)
        self._count(1, mark)
        frame.key, frame.key_mark, frame.merging = None, mark, True
        return None

    def alias(self, name: str, mark: Mark) -> None:
        """Adds what an anchor stands for."""
        if name not in self._anchors:
            self.refuse(mark, f"the alias *{name} has no anchor &{name} before it")
        part = self._anchors[name]
        if part is None:
            self.refuse(mark, f"the anchor &{name} contains itself")
        self._count(part.size, mark)
        self._check_levels(part.levels, mark)
        self._place(_Part(Node(part.node.value, mark, self._frames[-1].key_mark), part.size, part.levels))

    def error(self, mark: Mark, text: str, hint: str = "") -> None:
        """Notes a fault; reading continues."""
        if len(self._diagnostics) >= MOST_SHOWN:
            self.refuse(mark, text, hint)
        self._diagnostics.append(self._diagnostic(mark, text, hint))

    def refuse(self, mark: Mark, text: str, hint: str = "") -> NoReturn:
        """Raises BadManifest with this fault and every one noted before."""
        raise BadManifest.of([*self._diagnostics, self._diagnostic(mark, text, hint)])

    def _finished(self, part: _Part, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = part
        self._place(part)

    def _place(self, part: _Part) -> None:
        frame = self._frames[-1]
        frame.size += part.size
        frame.levels = max(frame.levels, part.levels + 1)
        entries, node = frame.node.value, part.node
        if isinstance(entries, list):
            entries.append(node)
            return
        assert isinstance(entries, dict)
        if not frame.wants_key:
            if frame.merging:
                for each in node.value if isinstance(node.value, list) else [node]:
                    if isinstance(each.value, dict):
                        frame.merged.append(each.value)
                    else:
                        self.error(each.mark, f"{MERGE_KEY} takes over mappings, found {describe(each)}")
            elif frame.key is not None:
                entries[frame.key] = node
            frame.key, frame.key_mark, frame.merging = None, None, False
            return
        frame.key_mark = node.mark
        if not isinstance(node.value, str):
            template = "a template such as {{ name }} must be filled in first"
            hint = template if isinstance(node.value, dict) else quotes_hint(node)
            self.error(node.mark, f"a key must be a text, found {describe(node)}", hint)
            return
        frame.key = node.value
        if first := entries.get(node.value):
            mark = first.key_mark or first.mark
            text = f"the key {quoted(node.value)} is here a second time"
            self.error(node.mark, f"{text}; the first is at line {mark.line}, column {mark.column}")
            frame.key = None

    def _count(self, more: int, mark: Mark) -> None:
        self._nodes += more
        if self._nodes > MOST_NODES:
            self.refuse(mark, f"there are more than {MOST_NODES:,} values, counting each alias in full")

    def _check_levels(self, more: int, mark: Mark) -> None:
        if len(self._frames) - 1 + more > MOST_LEVELS:
            self.refuse(mark, f"the nesting is deeper than {MOST_LEVELS} levels")

    def _diagnostic(self, mark: Mark, text: str, hint: str) -> Diagnostic:
        path = ""
        for frame in self._frames[1:]:
            if isinstance(frame.node.value, list):
                path = field_path(path, len(frame.node.value))
            elif frame.key is not None:
                path = field_path(path, frame.key)
        # The outermost levels tell where it is; the hundred levels of a bomb tell nothing more.
        path = path if len(path) <= _LONGEST_PATH else path[:_LONGEST_PATH] + "..."
        return Diagnostic(self._file, mark.line, mark.column, path, text, hint)


class _Part(Struct, frozen=True, gc=False):
    """A finished node, how many values it holds and how many levels lie below it, aliases counted in full."""

    node: Node
    size: int
    levels: int


class _Frame:
    """A mapping or list that is not finished, and the key whose value comes next."""

    __slots__ = ("anchor", "key", "key_mark", "levels", "merged", "merging", "node", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.size = 1
        self.levels = 1
        self.key: str | None = None  # None after a key that cannot be used: its value is dropped
        self.key_mark: Mark | None = None
        self.merging = False
        self.merged: list[dict[str, Node]] = []

    @property
    def wants_key(self) -> bool:
        return self.key_mark is None and isinstance(self.node.value, dict)
