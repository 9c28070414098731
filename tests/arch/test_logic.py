"""There is one control logic: `see` of a backend only reads, and nobody but the loop sets a timer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "bireme"
BACKENDS = SOURCE / "backends"
WRITES = {"create", "patch", "delete", "socket", "exec"}
"""The methods of the client that change something; all others of them read."""
UNTIMED = ("core", "engine", "backends/kubernetes", "operator/store.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_seeing_makes_no_request_that_changes_anything() -> None:
    for backend in backends():
        reached = reached_from("see", backend)
        found = [f"{name}: {ast.unparse(call)}" for name, call in writes(reached)]

        assert len(reached) > 1, "`see` is looked for in the wrong place"
        assert not found, f"{backend.name}: make it an action that core decides"


def test_the_proof_finds_the_requests_of_acting() -> None:
    """What proves that nothing is there must be able to find it."""
    cluster = next(one for one in backends() if one.name == "kubernetes")

    changed = {ast.unparse(call.func) for _, call in writes(reached_from("act", cluster))}

    assert {"self._api.create", "self._api.patch", "self._api.delete"} <= changed


def test_only_the_loop_sets_timers() -> None:
    """A timer of a backend or a store would be a decision beside `Decision.wake_at`."""
    for path in (file for folder in UNTIMED for file in python_in(SOURCE / folder)):
        nodes = list(ast.walk(parsed(path)))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}

        assert not names & {"look_at", "_look_at", "add_at", "call_later", "call_at"}, path


def backends() -> list[Path]:
    return sorted(folder for folder in BACKENDS.iterdir() if list(folder.glob("*backend.py")))


def reached_from(name: str, backend: Path) -> dict[tuple[Path, str], list[Function]]:
    """Every function of a backend that the named one may call, its client aside.

    Whose method is called cannot be told from the source, so that all of a name are taken: that finds too
    much rather than too little. Only a private name is looked for in its own file alone.
    """
    known: dict[tuple[Path, str], list[Function]] = {}
    for path in python_in(backend):
        if not {"client", "submit"} & set(path.parts):  # What a user's commands send is no part of seeing.
            for node in ast.walk(parsed(path)):
                if isinstance(node, Function):
                    known.setdefault((path, node.name), []).append(node)
    reached: dict[tuple[Path, str], list[Function]] = {}
    (module,) = backend.glob("*backend.py")
    open_ends = [(module, name)]
    while open_ends:
        place = open_ends.pop()
        if place in reached or place not in known:
            continue
        reached[place] = known[place]
        for mention in (name for function in known[place] for name in mentions(function)):
            is_private = mention.startswith("_")
            open_ends += [
                one for one in known if one[1] == mention and (one[0] == place[0] or not is_private)
            ]
    return reached


def mentions(function: Function) -> Iterator[str]:
    """The names that a function may call: also those that it only hands on, such as to `map`."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            if not is_the_client(node.value):
                yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def writes(functions: dict[tuple[Path, str], list[Function]]) -> Iterator[tuple[str, ast.Call]]:
    for (_, name), bodies in functions.items():
        for node in (node for body in bodies for node in ast.walk(body)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in WRITES
                and is_the_client(node.func.value)
            ):
                yield name, node


def is_the_client(node: ast.AST) -> bool:
    return ast.unparse(node) in ("api", "self._api", "self.api")


def python_in(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())
