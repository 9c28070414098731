"""Does the runtime keep its floor: Python 3.9 syntax, the standard library, and nothing else of ours."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import bireme.runtime

RUNTIME = Path(bireme.runtime.__file__).parent
FILES = sorted(RUNTIME.rglob("*.py"))
FRAMEWORKS = {"torch", "numpy", "jax", "tensorflow", "obstore"}
"""What functions of the runtime may import, for a script that has it imported itself, or asked for it."""


def names(paths: list[Path]) -> list[str]:
    return [path.relative_to(RUNTIME).as_posix() for path in paths]


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_is_written_in_the_syntax_of_python_3_9(path: Path) -> None:
    ast.parse(path.read_text(encoding="utf-8"), filename=str(path), feature_version=(3, 9))


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_imports_only_the_standard_library_and_itself(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = {file.stem for file in FILES}

    everywhere = set(imported(path, ast.walk(tree))) - sys.stdlib_module_names - own
    at_import = set(imported(path, at_the_top(tree))) - sys.stdlib_module_names - own

    assert everywhere <= FRAMEWORKS
    assert at_import == set()


@pytest.mark.parametrize("path", FILES, ids=names(FILES))
def test_evaluates_no_annotation(path: Path) -> None:
    """`X | None` in an annotation is fine on Python 3.9 as long as nobody evaluates it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    code = [
        node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]

    first = ast.unparse(code[0]) if code else "from __future__ import annotations"

    assert first == "from __future__ import annotations"


def at_the_top(tree: ast.Module) -> Iterator[ast.AST]:
    """Everything that runs when the module is imported: all but the insides of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += [one for one in ast.iter_child_nodes(node) if not is_for_type_checkers(one)]


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imported(path: Path, nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The top-level names that these nodes import; relative imports are the runtime's own."""
    depth = len(path.relative_to(RUNTIME).parts)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]
        elif isinstance(node, ast.ImportFrom):
            assert node.level <= depth, f"{path}:{node.lineno} reaches out of the runtime"
