"""Collects what is wrong with a manifest, with its place, and reads fields by name and type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

from msgspec import Struct, structs

from bireme.errors import BadManifest
from bireme.manifest.text import yaml_scalars
from bireme.manifest.text.nodes import Mark, Node, describe, field_path, quoted, quotes_hint
from bireme.model import quantities

_MANY = 100
_LONGEST_NAME = 63

# A caller that gives a default gets its type, so that a reader with one never has to look for None.
_Text = TypeVar("_Text", str, None)
_Integer = TypeVar("_Integer", int, None)
_Boolean = TypeVar("_Boolean", bool, None)


class Diagnostic(Struct, frozen=True):
    """One thing that is wrong; line 0 means the file as a whole."""

    file: str
    line: int
    column: int
    field: str
    text: str
    hint: str = ""
    warning: bool = False

    @property
    def is_slip(self) -> bool:
        """Whether it is hardly what its writer meant: a field or an amount that looks like another one."""
        return self.warning and self.text.endswith("?") and "did you mean" in self.text

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        named = f"{place} {self.field}" if self.field else place
        hint = f" ({self.hint})" if self.hint else ""
        # It stays on one line, and the terminal is safe from what a manifest holds.
        text = f"{named}: {self.text}{hint}"
        return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in text)


class Diagnostics:
    """Gathers diagnostics, so that the user hears them all in one run."""

    def __init__(self, file: str = "") -> None:
        self._file = file
        # Keys of a dict: in order, and what is found twice is said once.
        self._found: dict[Diagnostic, None] = {}

    def error(
        self, at: Node | Mark | None, field: str, text: str, hint: str = "", *, file: str | None = None
    ) -> None:
        """Notes an error at a node or mark; at none, it concerns the file as a whole."""
        self.add(_diagnostic(self._file if file is None else file, at, field, text, hint))

    def warn(
        self, at: Node | Mark | None, field: str, text: str, hint: str = "", *, file: str | None = None
    ) -> None:
        """Notes something odd that does not stop the job."""
        diagnostic = _diagnostic(self._file if file is None else file, at, field, text, hint)
        self.add(structs.replace(diagnostic, warning=True))

    def add(self, diagnostic: Diagnostic) -> None:
        """Notes a diagnostic that was made elsewhere."""
        self._found[diagnostic] = None

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, file by file and from top to bottom."""
        return tuple(each for each in self._in_order() if not each.warning)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings, file by file and from top to bottom."""
        return tuple(each for each in self._in_order() if each.warning)

    @property
    def refusing(self) -> tuple[Diagnostic, ...]:
        """The errors with the slips among them, which may well be why something is missing."""
        found = [each for each in self._in_order() if not each.warning or each.is_slip]
        return tuple(structs.replace(each, warning=False) for each in found)

    @property
    def are_many(self) -> bool:
        """True once there are more diagnostics than anyone reads."""
        return len(self._found) >= _MANY

    def raise_if_any(self) -> None:
        """Raises one BadManifest that carries every error, if there is any."""
        if errors := self.errors:
            raise BadManifest.of(errors)

    def _in_order(self) -> list[Diagnostic]:
        files: dict[str, int] = {}
        for each in self._found:
            files.setdefault(each.file, len(files))
        return sorted(self._found, key=lambda each: (files[each.file], each.line, each.column))


class Fields:
    """Reads the fields of one mapping by name and type, and remembers which names it was asked for.

    Null counts as absent, as in Kubernetes. A value of the wrong type is reported and read as
    absent, so that reading continues and all diagnostics come together. After the last field, `done` warns
    about those that no reader asked for.
    """

    def __init__(self, diagnostics: Diagnostics, file: str, node: Node, path: str = "") -> None:
        self.file = file
        self.path = path
        self.here = node
        self._diagnostics = diagnostics
        self._known: dict[str, None] = {}
        self._entries: dict[str, Node] = {}
        if isinstance(node.value, dict):
            self._entries = node.value
        else:
            diagnostics.error(node, path, f"wanted a mapping, found {describe(node)}", file=file)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def keys(self) -> tuple[str, ...]:
        """Returns the names that are written here, those with null included, in their order."""
        return tuple(self._entries)

    def node(self, name: str) -> Node | None:
        """Returns the node of a field that is there and not null."""
        self._known[name] = None
        node = self._entries.get(name)
        return None if node is None or node.value is None else node

    def raw(self, name: str) -> Any:  # Any: whatever the manifest holds, passed on untouched
        """Returns a field as plain data, or None."""
        node = self.node(name)
        return None if node is None else node.plain()

    @overload
    def text(self, name: str) -> str | None: ...
    @overload
    def text(self, name: str, default: _Text) -> str | _Text: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """Returns a text; a number or boolean without quotes is refused, as Kubernetes does."""
        node = self.node(name)
        value = None if node is None else self._as_text(node, self._path(name))
        return default if value is None else value

    @overload
    def integer(self, name: str, *, minimum: int | None = None, maximum: int | None = None) -> int | None: ...
    @overload
    def integer(
        self, name: str, default: _Integer, *, minimum: int | None = None, maximum: int | None = None
    ) -> int | _Integer: ...
    def integer(
        self, name: str, default: int | None = None, *, minimum: int | None = None, maximum: int | None = None
    ) -> int | None:
        """Returns a whole number within the bounds."""
        node = self.node(name)
        if node is None:
            return default
        value = _as_integer(node.value)
        if value is None:
            written = node.value.strip() if isinstance(node.value, str) else ""
            meant = _as_integer(yaml_scalars.resolve(written))
            hint = "" if meant is None else f"write {meant}, without quotes"
            self.error(name, f"wanted a whole number, found {describe(node)}", hint)
        elif minimum is not None and value < minimum:
            self.error(name, f"must be at least {minimum}, found {value}")
        elif maximum is not None and value > maximum:
            self.error(name, f"must be at most {maximum}, found {value}")
        else:
            return value
        return default

    @overload
    def boolean(self, name: str) -> bool | None: ...
    @overload
    def boolean(self, name: str, default: _Boolean) -> bool | _Boolean: ...
    def boolean(self, name: str, default: bool | None = None) -> bool | None:
        """Returns true or false."""
        node = self.node(name)
        if node is None or isinstance(node.value, bool):
            return default if node is None else bool(node.value)
        meant = yaml_scalars.resolve(node.value) if isinstance(node.value, str) else None
        hint = f"write {str(meant).lower()}, without quotes" if isinstance(meant, bool) else ""
        self.error(name, f"wanted true or false, found {describe(node)}", hint)
        return default

    @overload
    def choice(self, name: str, choices: Sequence[str]) -> str | None: ...
    @overload
    def choice(self, name: str, choices: Sequence[str], default: _Text) -> str | _Text: ...
    def choice(self, name: str, choices: Sequence[str], default: str | None = None) -> str | None:
        """Returns a text that is one of the choices, spelt exactly."""
        value = self.text(name)
        if value is None or value in choices:
            return default if value is None else value
        nearest = self._nearest(value, choices)
        hint = f"did you mean {nearest}?" if nearest else ""
        self.error(name, f"must be one of {', '.join(choices)}, found {quoted(value)}", hint)
        return default

    def mapping(self, name: str) -> Fields | None:
        """Returns a cursor over a mapping within this one."""
        node = self.node(name)
        if node is None:
            return None
        fields = Fields(self._diagnostics, self.file, node, self._path(name))
        return fields if isinstance(node.value, dict) else None

    def items(self, name: str) -> list[Fields]:
        """Returns a cursor over each mapping of a list; none if the field is absent."""
        found = [Fields(self._diagnostics, self.file, node, path) for path, node in self._list(name)]
        return [each for each in found if isinstance(each.here.value, dict)]

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Returns a list of texts, or None if the field is absent or not a list."""
        node = self.node(name)
        found = tuple(self._as_text(each, path) for path, each in self._list(name))
        if node is None or not isinstance(node.value, list):
            return None
        return tuple(each for each in found if each is not None)

    def good_texts(self, name: str, wrong: Callable[[str], str]) -> tuple[str, ...]:
        """Returns the texts of a list that nothing is wrong with; the others are reported."""
        good: list[str] = []
        for path, node in self._list(name):
            text = self._as_text(node, path)
            if text is not None and (what := wrong(text)):
                self._diagnostics.error(node, path, what, file=self.file)
            elif text is not None:
                good.append(text)
        return tuple(good)

    def text_map(self, name: str) -> dict[str, str]:
        """Returns a mapping of texts, such as labels; empty if the field is absent."""
        fields = self.mapping(name)
        if fields is None:
            return {}
        texts = {key: fields.text(key) for key in fields}
        return {key: text for key, text in texts.items() if text is not None}

    def quantity(self, name: str) -> str | None:
        """Returns a resource quantity as text, checked to be one and not negative."""
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, dict | list | bool):
            self.error(name, f"wanted a quantity such as 2, 500m or 4Gi, found {describe(node)}")
            return None
        written = str(node.value)
        try:
            value = quantities.parse(written)
        except ValueError as error:
            self.error(name, str(error))
            return None
        if value < 0:
            self.error(name, f"must not be negative, found {written}")
            return None
        return written

    def quantities(self, name: str) -> dict[str, str]:
        """Returns a mapping of resource quantities, such as limits; empty if the field is absent."""
        fields = self.mapping(name)
        if fields is None:
            return {}
        found = {key: fields.quantity(key) for key in fields}
        return {key: text for key, text in found.items() if text is not None}

    def done(self, ignore: Iterable[str] = ()) -> None:
        """Warns about every field that no reader asked for, with the nearest name that is known."""
        known = dict.fromkeys([*self._known, *ignore])
        for key in [each for each in self._entries if each not in known]:
            nearest = self._nearest(key, known)
            advice = f", did you mean {quoted(nearest)}?" if nearest else ""
            self.warn(key, f"unknown field {quoted(key)}{advice}")

    def error(self, name: str, text: str, hint: str = "") -> None:
        """Notes an error at a field, or at the mapping itself if the field is absent or the name empty."""
        node = self._entries.get(name)
        mark = (self.here.key_mark or self.here.mark) if node is None else node.mark
        self._diagnostics.error(mark, self._path(name), text, hint, file=self.file)

    def warn(self, name: str, text: str, hint: str = "") -> None:
        """Notes a warning at a field's key, with the same exceptions."""
        node = self._entries.get(name, self.here)
        self._diagnostics.warn(node.key_mark or node.mark, self._path(name), text, hint, file=self.file)

    def _path(self, name: str) -> str:
        return field_path(self.path, name) if name else self.path

    def _list(self, name: str) -> list[tuple[str, Node]]:
        node = self.node(name)
        if node is None:
            return []
        if not isinstance(node.value, list):
            self.error(name, f"wanted a list, found {describe(node)}")
            return []
        return [(field_path(self._path(name), index), each) for index, each in enumerate(node.value)]

    def _as_text(self, node: Node, path: str) -> str | None:
        if isinstance(node.value, str):
            return node.value
        text = f"wanted a text, found {describe(node)}"
        if isinstance(node.value, dict) and len(node.value) == 1:
            ((key, inner),) = node.value.items()
            if inner.value is None:  # YAML reads `{your_image}` as a mapping of one key to nothing.
                text = f"{{{key}}} is a placeholder: fill it in, or quote it"
        self._diagnostics.error(node, path, text, quotes_hint(node), file=self.file)
        return None

    def _nearest(self, name: str, known: Iterable[str]) -> str:
        # The comparison is slow enough that a manifest full of unknown names must not get it for each.
        if self._diagnostics.are_many:
            return ""
        by_small = {each.lower(): each for each in known}
        import difflib  # here, because it is hardly ever needed

        matches = difflib.get_close_matches(name.lower()[:_LONGEST_NAME], by_small, n=1)
        return by_small[matches[0]] if matches else ""


def _diagnostic(file: str, at: Node | Mark | None, field: str, text: str, hint: str) -> Diagnostic:
    mark = at.mark if isinstance(at, Node) else at or Mark(line=0, column=0)
    return Diagnostic(file, mark.line, mark.column, field, text, hint)


def _as_integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    # Kubernetes reads 2.0 and 2e0 as 2 as well.
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value if isinstance(value, int) else None
