"""Reads from the source of a program which third-party packages it imports, without running it.

Modules of the user's own, beside the script or on PYTHONPATH, are read as well. Nothing here can fail a job:
what cannot be read imports nothing.
"""

from __future__ import annotations

import ast
import os
import sys
from collections import deque
from collections.abc import Iterator, Sequence

from msgspec import Struct

from bireme.core.machine.warm_starts import Needs
from bireme.runs.storage import files

_MOST_FILES = 300
_MOST_BYTES = 2 << 20
"""Of one source; what is longer was written by a program."""
_UNREADABLE = (OSError, SyntaxError, ValueError, RecursionError, MemoryError)
_CONDITIONAL = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ExceptHandler)


class _Source(Struct, frozen=True):
    path: str
    package: str
    """The package against which its relative imports count."""
    certain: bool
    """Whether it is imported in any case."""


def needs(words: Sequence[str], folder: str, python_path: str) -> Needs:
    """What `python [-m] TARGET args...` imports when it is started in a folder."""
    entries = [entry for entry in python_path.split(os.pathsep) if os.path.isabs(entry)]
    # A folder of packages that pip has filled is not the user's own source.
    own = [entry for entry in entries if not entry.rstrip("/").endswith(("site-packages", "dist-packages"))]
    if words[0] == "-m":
        roots = [folder, *own]
        todo = deque(_sources(words[1], roots, certain=True))
        if todo and os.path.basename(todo[-1].path) == "__init__.py":
            todo.extend(_sources(f"{words[1]}.__main__", roots, certain=True))
    else:
        script = os.path.join(folder, words[0])
        if os.path.isdir(script):
            script = os.path.join(script, "__main__.py")
        roots = [os.path.dirname(os.path.realpath(script)), *own]
        todo = deque([_Source(script, "", certain=True)])
    certain: set[str] = set()
    possible: set[str] = set()
    seen: dict[str, bool] = {}
    while todo and len(seen) < _MOST_FILES:
        source = todo.popleft()
        if seen.get(source.path, False) or (source.path in seen and not source.certain):
            continue
        seen[source.path] = source.certain
        for name, is_certain in _names(source):
            sure = source.certain and is_certain
            top = name.partition(".")[0]
            if sources := _sources(name, roots, certain=sure):
                todo.extend(sources)
            elif top not in sys.stdlib_module_names:
                (certain if sure else possible).add(top)
    return Needs(frozenset(certain), frozenset(possible - certain))


def _names(source: _Source) -> Iterator[tuple[str, bool]]:
    """Every module that a source imports, with its full name, and whether it does so in any case."""
    try:
        tree = ast.parse(files.read(source.path, _MOST_BYTES))
    except _UNREADABLE:
        return
    todo: deque[tuple[ast.AST, bool]] = deque([(tree, True)])
    while todo:
        node, sure = todo.popleft()
        yield from ((name, sure) for name in _imported(node, source.package))
        # What is inside of these may never run: functions, branches, the answer to an import that fails.
        within = sure and not isinstance(node, _CONDITIONAL)
        if isinstance(node, ast.If):
            test = node.test
            if "TYPE_CHECKING" in (getattr(test, "attr", ""), getattr(test, "id", "")):
                todo.extend((child, sure) for child in node.orelse)
                continue
            named = {name.id for name in ast.walk(test) if isinstance(name, ast.Name)}
            within = sure and "__name__" in named
        todo.extend((child, within) for child in ast.iter_child_nodes(node))


def _imported(node: ast.AST, package: str) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            # A relative import counts from the package, one level further up for each dot after the first.
            parts = package.split(".") if package and level else []
            if level - 1 > len(parts):
                return
            base = ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in names if alias.name != "*")
        case ast.Call(
            func=ast.Name(id="__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ) if name and not name.startswith("."):
            yield name
        case _:
            pass


def _sources(name: str, roots: Sequence[str], *, certain: bool) -> list[_Source]:
    """The user's own files that an import of a module runs: its packages and itself; none for others'."""
    parts = name.split(".")
    for root in roots:
        found = []
        folder = root
        for count, part in enumerate(parts, 1):
            inside = os.path.join(folder, part)
            package = ".".join(parts[:count])
            if os.path.isfile(os.path.join(inside, "__init__.py")):
                found.append(_Source(os.path.join(inside, "__init__.py"), package, certain))
            elif os.path.isfile(f"{inside}.py"):
                found.append(_Source(f"{inside}.py", package.rpartition(".")[0], certain))
                break
            elif not os.path.isdir(inside):
                break
            folder = inside
        if found:
            return found
    return []
