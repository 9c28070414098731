"""Counts lines, functions, helpers and names of a tree, by its syntax."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_NAMED_AFTER_WHAT_THEY_SHOW = ("cli/verbs", "cli/render")
_ASKS = re.compile(r"(Who|What|Where|When|Which|Why|How|Does|Do|Is|Are|Has|Have|Did|Whose|May|Can)\b")
_SINGLE_KIND = re.compile(r"\bKind\.[A-Z]+")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Lengths:
    median: int
    p95: int
    largest: int

    @classmethod
    def of(cls, lengths: list[int]) -> Lengths:
        ordered = sorted(lengths) or [0]
        return cls(ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)], ordered[-1])

    @property
    def shown(self) -> str:
        return f"{self.median} / {self.p95} / {self.largest}"


@dataclass(frozen=True)
class House:
    files: int
    lines: int
    file_lengths: Lengths
    function_lengths: Lengths
    helpers_by_folder: dict[str, tuple[int, int]]
    comments: float
    fullest: list[int]
    ambiguous_modules: list[str]
    ambiguous_classes: list[str]
    kinds_named_elsewhere: int
    modules_that_ask: list[str]

    @property
    def used_once(self) -> float:
        once, functions = map(sum, zip(*self.helpers_by_folder.values(), strict=True))
        return once / functions


def measure(root: Path) -> House:
    texts = {path.relative_to(root): path.read_text() for path in sorted(root.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    modules = [path for path in texts if path.name != "__init__.py"]
    helpers: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path, tree in trees.items():
        once, functions = helpers[str(path.parent)]
        names = [function.name for function in _functions(tree)]
        helpers[str(path.parent)] = (once + _used_once(names, texts[path]), functions + len(names))
    return House(
        files=len(texts),
        lines=sum(text.count("\n") for text in texts.values()),
        file_lengths=Lengths.of([text.count("\n") for text in texts.values()]),
        function_lengths=Lengths.of([_length(one) for tree in trees.values() for one in _functions(tree)]),
        helpers_by_folder=dict(helpers),
        comments=_comments(texts.values()),
        fullest=[count for _, count in Counter(path.parent for path in modules).most_common(3)],
        ambiguous_modules=_twice(
            path.stem for path in modules if str(path.parent) not in _NAMED_AFTER_WHAT_THEY_SHOW
        ),
        ambiguous_classes=_twice(
            node.name
            for tree in trees.values()
            for node in tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ),
        kinds_named_elsewhere=sum(
            len(_SINGLE_KIND.findall(text)) for path, text in texts.items() if path.parts[0] != "kinds"
        ),
        modules_that_ask=[
            str(path) for path, tree in trees.items() if _ASKS.match(ast.get_docstring(tree) or "")
        ],
    )


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _length(function: Function) -> int:
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def _used_once(names: list[str], text: str) -> int:
    private = [name for name in names if name.startswith("_") and not name.startswith("__")]
    return sum(len(re.findall(rf"\b{re.escape(name)}\b", text)) == 2 for name in private)


def _comments(texts: Iterable[str]) -> float:
    lines = [line.strip() for text in texts for line in text.splitlines()]
    comments = sum(line.startswith("#") for line in lines)
    return 100 * comments / max(1, sum(bool(line) and not line.startswith("#") for line in lines))


def _twice(names: Iterator[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1 and not name.startswith("__"))
