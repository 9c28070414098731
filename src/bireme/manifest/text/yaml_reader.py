"""Reads YAML text, and says in plain words what its parser reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

import yaml

from bireme.manifest.text import yaml_scalars
from bireme.manifest.text.nodes import Mark, Node, quoted
from bireme.manifest.text.tree_builder import Builder

_STANDARD_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}

# What libyaml and PyYAML's own parser say, what it means, and what helps.
_MEANINGS = (
    (
        "mapping values are not allowed",
        "a colon stands where no key can be",
        "check the indentation, or put a value that contains a colon in quotes",
    ),
    ("expected key", "the indentation does not fit the lines above", "align it with the keys it belongs to"),
    ("expected '-'", "the indentation does not fit the lines above", "align it with the items it belongs to"),
    ("<block end>", "the indentation does not fit the lines above", "align it with what it belongs to"),
    ("could not find expected ':'", "a key without a colon", "write `key: value`"),
    ("unexpected end of stream", "a quoted text begins here and never ends", "close the quotes"),
    ("expected ',' or ']'", "a list begins with [ here and is not closed", "look for a missing comma or ]"),
    (
        "expected ',' or '}'",
        "a mapping begins with { here and is not closed",
        "look for a missing comma or }",
    ),
    ("node content", "a value is missing", ""),
    ("document start>", "this belongs to no document", "separate documents by a line of three dashes"),
)
# A value that begins with a word in braces and continues after them: `image: {your_image}:{tag}`.
_PLACEHOLDER = re.compile(r"(?:[:\-]\s+|[\[,]\s*)(\{[^{}:,\"']*\})[^\s,\]}]")
# These are shown where the faulty thing begins: the parser notices them much later.
_SHOWN_AT_BEGINNING = ("could not find expected ':'", "unexpected end of stream", "expected ',' or")


class _YamlMark(Protocol):
    """A place as PyYAML's two parsers give it, counted from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def read(text: str, builder: Builder) -> None:
    """Feeds the builder every document of a text; raises BadManifest where the text is not YAML."""
    # Events, not PyYAML's composer: that one recurses, and follows aliases before anyone can count them.
    for event in _events(text, builder):
        mark = _mark(event.start_mark)
        match event:
            case yaml.ScalarEvent():
                _scalar(event, mark, builder)
            case yaml.MappingStartEvent():
                _open({}, "map", event, mark, builder)
            case yaml.SequenceStartEvent():
                _open([], "seq", event, mark, builder)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                builder.close()
            case yaml.AliasEvent():
                builder.alias(event.anchor or "", mark)
            case yaml.DocumentStartEvent():
                builder.begin(mark)
            case yaml.DocumentEndEvent():
                builder.finish()
            case _:
                pass  # the stream's own beginning and end


def _events(text: str, builder: Builder) -> Iterator[yaml.Event]:
    try:
        # The parser in C is twenty times faster; without it (rare) large manifests take seconds.
        yield from yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        builder.refuse(*_in_plain_words(error, text))
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: escapes in texts and tags that are no character.
        builder.refuse(Mark(0, 0), f"the text is not YAML: {error}")


def _scalar(event: yaml.ScalarEvent, mark: Mark, builder: Builder) -> None:
    text: str = event.value
    anchor: str | None = event.anchor
    tag: str | None = event.tag
    name = (tag or "").removeprefix(_STANDARD_TAG)
    is_plain: bool = tag is None and event.implicit[0]
    if is_plain and text == yaml_scalars.MERGE_KEY and anchor is None:
        builder.merge_key(mark)
    elif is_plain:
        builder.scalar(yaml_scalars.resolve(text), mark, anchor)
    elif tag in (None, "!") or name == "str":
        builder.scalar(text, mark, anchor)
    else:
        value = yaml_scalars.resolve(text)
        types = _TYPES.get(name)
        if types is None:
            _report_tag(name, mark, builder)
        elif type(value) not in types:
            builder.error(mark, f"{quoted(text)} does not fit its tag !!{name}")
        builder.scalar(value, mark, anchor)


def _open(
    container: dict[str, Node] | list[Node],
    own_tag: str,
    event: yaml.CollectionStartEvent,
    mark: Mark,
    builder: Builder,
) -> None:
    name = (event.tag or own_tag).removeprefix(_STANDARD_TAG)
    if name not in (own_tag, "!"):
        _report_tag(name, mark, builder)
    builder.open(container, mark, event.anchor)


def _report_tag(name: str, mark: Mark, builder: Builder) -> None:
    shown = name if name.startswith("!") else f"!!{name}"
    builder.error(mark, f"the tag {quoted(shown)} is not known", "leave it out")


def _in_plain_words(error: yaml.MarkedYAMLError, text: str) -> tuple[Mark, str, str]:
    """Returns place, sentence and hint for what the parser said."""
    problem = error.problem or ""
    place = error.problem_mark or error.context_mark
    mark = _mark(place)
    character = text[place.index : place.index + 1] if place else ""
    if "tab character" in problem or character == "\t":
        return mark, "a tab is used as indentation", "YAML allows only spaces there"
    if "cannot start any token" in problem:
        return mark, f"a value cannot begin with {character}", "put the value in quotes"
    line_start = text.rfind("\n", 0, place.index) + 1 if place else 0
    line = text[line_start:].partition("\n")[0]
    if place and (holder := _PLACEHOLDER.search(line)):
        return (
            Mark(mark.line, holder.start(1) + 1),
            f"{holder[1]} is a placeholder: fill it in, or quote it",
            "",
        )
    if error.context_mark is not None and any(each in problem for each in _SHOWN_AT_BEGINNING):
        mark = _mark(error.context_mark)
    for said, meaning, hint in _MEANINGS:
        if said in problem:
            return mark, meaning, hint
    return mark, "the text is not YAML: " + ", ".join(each for each in (error.context, problem) if each), ""


def _mark(mark: _YamlMark | None) -> Mark:
    return Mark(0, 0) if mark is None else Mark(mark.line + 1, mark.column + 1)
