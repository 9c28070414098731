"""Every request that changes, deletes or executes is in the table of docs/requests.md, with its guard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bireme.operator.install import operator_objects

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "bireme"
CLIENT = "backends/kubernetes/client/api.py"
SENDER = "backends/kubernetes/client/transport.py"
EXEC = "backends/kubernetes/client/pod_exec.py"
WAYS = {"delete": "uid", "patch": "meant"}
"""The client's methods, and the argument without which none of them can be called."""


class Sent(NamedTuple):
    verb: str
    place: str
    guard: str


class Row(NamedTuple):
    sent: Sent
    resources: tuple[str, ...]
    by: str


def test_every_request_is_in_the_table_with_its_guard() -> None:
    listed = sorted(row.sent for row in table() if row.sent.verb != "EXEC")

    assert sorted(sent()) == listed


def test_requests_are_made_by_the_client_alone() -> None:
    for file, tree in modules():
        if file not in (CLIENT, SENDER):
            made = {_name(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            assert not made & {"Request", "Wire"}, f"{file} builds a request beside the client"


def test_the_client_has_no_other_way_to_change_anything() -> None:
    (client,) = [tree for file, tree in modules() if file == CLIENT]
    requests = [node for node in ast.walk(client) if isinstance(node, ast.Call)]
    verbs = {
        node.args[0].value
        for node in requests
        if _name(node.func) == "Request" and isinstance(node.args[0], ast.Constant)
    }

    assert verbs == {"GET", "POST", "PATCH", "DELETE"}


def test_only_the_agent_of_a_launcher_executes() -> None:
    callers = [
        file
        for file, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) in ("api.socket", "self._api.socket", "wstream.exec")
    ]

    assert callers == [EXEC], "add the request to docs/requests.md, with what makes sure whose pod it is"
    assert [row.sent.place for row in table() if row.sent.verb == "EXEC"] == [
        "runtime/mpi/execsocket.py ExecSession"
    ]


def test_the_operator_may_change_and_delete_nothing_beyond_the_table() -> None:
    needed = {
        (row.sent.verb.lower(), name) for row in table() if row.by == "operator" for name in row.resources
    }
    rules: Any = [  # as the API writes them
        rule
        for one in operator_objects.rights(operator_objects.OperatorSettings())
        if one["kind"] in ("ClusterRole", "Role") and _named(one) == operator_objects.NAME
        for rule in one["rules"]  # type: ignore[attr-defined]
    ]
    granted = {
        (verb, _plain(resource))
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb in ("patch", "delete", "update", "deletecollection")
    }

    # To set owners that block a deletion one needs this right; it is never used by a request.
    assert granted - {("update", "jobs/finalizers")} == needed


def sent() -> Iterator[Sent]:
    for file, tree in modules():
        if file == CLIENT:
            continue
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Call) and (verb := _verb(node)):
                        yield Sent(verb, f"{file} {function.name}", _guard(verb, function))


def table() -> list[Row]:
    lines = (ROOT / "docs" / "requests.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [
        Row(Sent(verb, where.replace("`", ""), guard), tuple(resources.split(", ")), by)
        for verb, resources, by, where, _, guard in cells
        if verb.isupper()
    ]


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _verb(call: ast.Call) -> str:
    """The verb of a call of the client; its argument tells it from other things of the same name."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    wanted = WAYS.get(name)
    is_one = wanted is not None and any(one.arg == wanted for one in call.keywords)
    is_clients = _called(call) in (f"api.{name}", f"self._api.{name}") and wanted is not None
    return name.upper() if is_one or is_clients else ""


def _guard(verb: str, function: ast.AST) -> str:
    if verb == "DELETE":
        return "uid"
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _name(node.func) == "Expected":
            found.append("uid, resourceVersion" if len(node.args) > 1 else "uid")
        if isinstance(node, ast.Attribute) and _name(node.value) == "ByName":
            found.append(f"by name: {node.attr}")
    return "; ".join(found)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func) if isinstance(call.func, ast.Attribute) else ""


def _plain(resource: str) -> str:
    """Of whichever kind: `tfjobs/status` is `jobs/status`."""
    plural, slash, sub = resource.partition("/")
    return f"{'jobs' if plural.endswith('jobs') else plural}{slash}{sub}"


def _named(one: Any) -> str:  # Any: as the API writes it
    return str(one["metadata"]["name"])
