"""Does the import graph stay what it is said to be: without cycles, and light where that is the point."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
HEAVY = {"asyncio", "click", "msgspec", "yaml", "sqlite3", "torch"}


def test_no_module_imports_itself_through_others() -> None:
    graph = {name: _imports(path) for name, path in _modules().items()}

    assert _cycle(graph) == []


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import bireme", set()),
        ("import bireme.runtime.start_rank", set()),
        ("import bireme.runtime.wire", set()),
        ("sys.argv = ['bireme', '--help']; from bireme.cli.main import main; main()", {"click"}),
    ],
)
def test_what_must_start_quickly_imports_nothing_heavy(code: str, allowed: set[str]) -> None:
    shown = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nsys.stderr.write(' '.join(sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)

    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded & HEAVY <= allowed


@functools.cache
def _modules() -> dict[str, Path]:
    found = {}
    for path in sorted((SOURCE / "bireme").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imports(path: Path) -> set[str]:
    """Modules of ours that are imported when this one is; those imported within functions come later."""
    known = _modules()
    package = ".".join(path.relative_to(SOURCE).parts[:-1])
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                found.add(whole if whole in known else base)
    return {name for name in found if name in known}


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """The first cycle that is found, as a path; empty when there is none."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := visit(other, [*way, name]):
                return found
        done.add(name)
        return []

    return next((found for name in graph if (found := visit(name, []))), [])
