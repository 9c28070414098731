"""Does the runtime keep its floor: Python 3.9 syntax, the standard library, and nothing else of ours."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import bireme.runtime

RUNTIME = Path(bireme.runtime.__file__).parent
FILES = sorted(RUNTIME.rglob("*.py"))


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(RUNTIME).as_posix() for path in paths]


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_is_written_in_the_syntax_of_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 9))


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_imports_only_the_standard_library_and_itself(path: Path) -> None:
    own = {file.stem for file in FILES}

    foreign = set(imported(path)) - sys.stdlib_module_names - own

    assert foreign == set()


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_evaluates_no_annotation(path: Path) -> None:
    """`X | None` in an annotation is fine on Python 3.9 as long as nobody evaluates it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    code = [
        node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]

    first = ast.unparse(code[0]) if code else "from __future__ import annotations"

    assert first == "from __future__ import annotations"


def imported(path: Path) -> Iterator[str]:
    """The top-level names that a file imports; relative imports are its own package's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1, f"{path}:{node.lineno} reaches out of the runtime"
