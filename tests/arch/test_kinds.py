"""Is a kind one module and one line: nothing outside of `kinds` knows a single kind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bireme import kinds

SOURCE = Path(__file__).resolve().parents[2] / "src" / "bireme"
SHARED = {"contract", "kubeflow_labels"}
"""The modules of `kinds` that others may import: they are about no kind in particular."""
WORKER = "Worker"
"""The role that nearly all kinds have; no kind is meant by it."""
COMMON = {"ps", "scheduler", "server"}
"""Names of roles that are also words for other things."""

# What is refused as a TrainJob is shown as the PyTorchJob that it would be.
EXCEPTIONS = {"manifest/conversions.py", "manifest/read.py"}


def test_no_module_outside_of_kinds_knows_a_single_kind() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in ("kinds", "runtime")
        and str(path.relative_to(SOURCE)) not in EXCEPTIONS
        for line, what in _mentions(ast.parse(path.read_text()))
    ]

    assert found == []


def test_every_module_of_a_kind_is_registered() -> None:
    modules = {path.stem for path in (SOURCE / "kinds").glob("*.py")} - SHARED - {"__init__"}
    used = {type(kind).__module__.rpartition(".")[2] for kind in kinds.KINDS}

    # A large kind may have further modules, which carry its name.
    assert {name for name in modules if name.partition("_")[0] not in used} == set()


def _mentions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    names = {kind.name for kind in kinds.KINDS} - {"Job"}  # also the name of our own struct
    roles = {role.key for kind in kinds.KINDS for role in kind.role_types(kind.api_versions[0])} - {
        WORKER,
        "Pod",
    }
    words = names | roles | {role.lower() for role in roles} - COMMON
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bireme.kinds"):
            inner = node.module.removeprefix("bireme.kinds").removeprefix(".")
            for name in [inner] if inner else [alias.name for alias in node.names]:
                if re.fullmatch("[a-z_]+", name) and name not in SHARED:
                    yield node.lineno, f"imports kinds.{name}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if node.value in words:
                yield node.lineno, f"says {node.value!r}"
        elif isinstance(node, ast.Attribute) and node.attr.isupper() and ast.unparse(node.value) == "Kind":
            yield node.lineno, f"says Kind.{node.attr}"
