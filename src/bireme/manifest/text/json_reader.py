"""Reads JSON text, with the place of every value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from bireme.manifest.text import yaml_scalars
from bireme.manifest.text.nodes import Mark, quoted
from bireme.manifest.text.tree_builder import Builder

_JSON_START = re.compile(r"\s*+[\[{]")
_JSON_FIRST_KEY = re.compile(r"[\s\[]*+\{\s*+\"")
_TOKEN = re.compile(
    r"""[ \t\r\n]*+(?:
     (?P<sign>[{}\[\],:])
    |(?P<text>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
    |(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)(?![0-9A-Za-z_.+-])
    |(?P<word>true|false|null)(?![0-9A-Za-z_])
    |(?P<end>\Z)
    |(?P<fault>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}

_OPENING = frozenset(("{", "["))
_CLOSING = frozenset(("}", "]"))
_VALUE = frozenset(("{", "[", "text", "number", "word"))
_VALUE_OR_CLOSE = _VALUE | {"]"}
_KEY = frozenset(("text",))
_KEY_OR_CLOSE = frozenset(("text", "}"))
_COLON = frozenset((":",))
_AFTER = {sign: frozenset((",", sign)) for sign in _CLOSING}
_DOCUMENT = frozenset(("{", "[", "end"))

_NAMES = {
    "text": "a text in double quotes",
    "number": "a number",
    "word": "true, false or null",
    "end": "the end",
}


class NotJson(Exception):
    """The text is not JSON; it may still be YAML."""

    def __init__(self, mark: Mark, text: str) -> None:
        super().__init__(text)
        self.mark = mark
        self.text = text


def looks_like_json(text: str) -> bool:
    """Tells whether a text should be tried as JSON, by its first character."""
    return _JSON_START.match(text) is not None


def is_meant_as_json(text: str) -> bool:
    """Tells whether a text that begins with a bracket continues as JSON would, and not as YAML might."""
    return _JSON_FIRST_KEY.match(text) is not None


def read(text: str, builder: Builder) -> None:
    """Feeds the builder every document of a text; raises NotJson where it is not JSON."""
    closing: list[str] = []  # the signs that are due, innermost last
    due = _DOCUMENT
    for kind, value, mark in _tokens(text):
        if kind not in due:
            if kind == "fault" and value == '"':
                raise NotJson(mark, "a text begins here and does not end on this line, or holds a tab")
            found = quoted(str(value)) if kind == "fault" else _named({kind})
            raise NotJson(mark, f"wanted {_named(due)}, found {found}")
        if kind in _OPENING:
            if not closing:
                builder.begin(mark)
            builder.open({} if kind == "{" else [], mark)
            closing.append("}" if kind == "{" else "]")
            due = _KEY_OR_CLOSE if kind == "{" else _VALUE_OR_CLOSE
        elif kind == ",":
            due = _KEY if closing[-1] == "}" else _VALUE
        elif kind == ":":
            due = _VALUE
        elif due is _KEY or (due is _KEY_OR_CLOSE and kind == "text"):
            builder.scalar(value, mark)
            due = _COLON
        elif kind != "end":
            if kind in _CLOSING:
                builder.close()
                closing.pop()
            else:
                builder.scalar(value, mark)
            due = _AFTER[closing[-1]] if closing else _DOCUMENT
            if not closing:
                builder.finish()


def _tokens(text: str) -> Iterator[tuple[str, yaml_scalars.Scalar, Mark]]:
    """Cuts a text into kind, value and place; a sign is its own kind, `end` or `fault` comes last."""
    offset, line, line_start = 0, 1, 0
    kind = ""
    while kind not in ("end", "fault") and (found := _TOKEN.match(text, offset)):
        kind = found.lastgroup or ""
        start = found.start(kind)
        # A text in quotes holds no line break, so that breaks are only ever found before a token.
        if breaks := text.count("\n", offset, start):
            line += breaks
            line_start = text.rindex("\n", offset, start) + 1
        offset = found.end()
        mark = Mark(line, start - line_start + 1)
        written = found[kind]
        value: yaml_scalars.Scalar = _WORDS.get(written, written)
        if kind == "number":
            value = yaml_scalars.resolve(written)
        elif kind == "text":
            try:
                value = str(json.loads(written)) if "\\" in written else written[1:-1]
            except json.JSONDecodeError as error:
                text = f"the text has an escape that JSON does not know: {error.msg}"
                raise NotJson(mark, text) from None
        yield written if kind == "sign" else kind, value, mark


def _named(kinds: frozenset[str] | set[str]) -> str:
    if kinds >= _VALUE:
        kinds = (kinds - _VALUE) | {"a value"}
    return " or ".join(_NAMES.get(kind, kind) for kind in sorted(kinds))
