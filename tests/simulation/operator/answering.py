"""What does the API server answer to a request, and what does the request do."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bireme.backends.kubernetes.client.paths import Target, target
from bireme.backends.kubernetes.client.transport import Request
from tests.simulation.operator.server import PODS, Refused, Server, Tree, matches

SUCCESS: Tree = {"kind": "Status", "status": "Success"}
_UNKEPT = ("events",)
"""What nobody in a simulation reads."""


class Guard:
    """Sees what an operator asks for before it is done; the rules are one."""

    def creates_pod(self, who: str, body: Tree) -> None: ...

    def deletes_pod(self, who: str, pod: Tree, options: Tree) -> None: ...

    def changes(self, who: str, what: str, uid: str) -> None: ...

    def writes_status(self, who: str, before: Tree, after: Tree) -> None: ...


class Front:
    """The server as requests reach it."""

    def __init__(self, server: Server, guard: Guard, may_create: Callable[[str], None]) -> None:
        self._server, self._guard, self._may_create = server, guard, may_create

    def answer(self, who: str, request: Request, old: int) -> bytes:
        """Carry out a request; a list of any version may show as little as the version `old`."""
        about = target(request.path)
        match request.method:
            case "GET" if not about.name:
                return self._list(about, request.query, old)
            case "GET":
                return msgspec.json.encode(self._server.get(*_place(about)))
            case "POST":
                return msgspec.json.encode(self._create(who, about, _body(request)))
            case "PATCH":
                return msgspec.json.encode(self._patch(who, about, request))
            case "DELETE":
                return msgspec.json.encode(self._delete(who, about, _body(request)))
        raise Refused(405, "MethodNotAllowed", request.method)

    def _list(self, about: Target, query: dict[str, str], old: int) -> bytes:
        version = old if query.get("resourceVersion") == "0" else self._server.version
        selector = query.get("labelSelector", "")
        found = [
            msgspec.Raw(one.encoded)
            for one in self._server.list(about.resource, version)
            if matches(one.tree, selector) and about.namespace in ("", one.key[0])
        ]
        return msgspec.json.encode({"metadata": {"resourceVersion": str(version)}, "items": found})

    def _create(self, who: str, about: Target, body: Tree) -> Tree:
        plural = about.resource
        if plural in _UNKEPT:
            return body
        self._may_create(plural)
        if plural == PODS:
            if (about.namespace, body["metadata"]["name"]) not in self._server.objects[PODS]:
                self._guard.creates_pod(who, body)
            body = {**body, "status": {"phase": "Pending"}}
        return self._server.create(plural, about.namespace, body)

    def _patch(self, who: str, about: Target, request: Request) -> Tree:
        plural, key = _place(about)
        before = self._server.get(plural, key)
        is_json = request.content_type.startswith("application/json-patch")
        self._guard.changes(who, f"{plural} {key[1]}", _meant(request, is_json=is_json))
        after = _patched(before, _operations(request)) if is_json else _merged(before, _body(request))
        if after["metadata"]["uid"] != before["metadata"]["uid"]:
            raise Refused(409, "Conflict", f"Precondition failed: UID in precondition: {plural}")
        if not is_json:
            return self._server.write(plural, key, after)
        if after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on {plural} "{key[1]}"')
        if about.resource.endswith("/status"):
            after = {**before, "status": after["status"]}
            self._guard.writes_status(who, before, after)
        return self._server.write(plural, key, after)

    def _delete(self, who: str, about: Target, options: Tree) -> Tree:
        plural, key = _place(about)
        uid = options.get("preconditions", {}).get("uid", "")
        grace = options.get("gracePeriodSeconds")
        found = self._server.get(plural, key)
        self._guard.changes(who, f"{plural} {key[1]}", uid)
        if plural != PODS:
            self._server.delete(plural, key, uid)
            return SUCCESS
        if uid in ("", found["metadata"]["uid"]):
            self._guard.deletes_pod(who, found, options)
        return {"kind": "Pod", **self._server.delete(plural, key, uid, grace)}


def _place(about: Target) -> tuple[str, tuple[str, str]]:
    return about.resource.partition("/")[0], (about.namespace, about.name)


def _body(request: Request) -> Tree:
    tree: Tree = msgspec.json.decode(request.body or b"{}")
    return tree


def _operations(request: Request) -> list[Tree]:
    return msgspec.json.decode(request.body or b"[]", type=list[Tree])


def _meant(request: Request, *, is_json: bool) -> str:
    """The uid of the object that a patch is meant for."""
    if not is_json:
        return str(_body(request).get("metadata", {}).get("uid", ""))
    return next((str(one["value"]) for one in _operations(request) if one["path"] == "/metadata/uid"), "")


def _merged(before: Tree, patch: Tree) -> Tree:
    after = dict(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            known = after.get(name)
            after[name] = _merged(known if isinstance(known, dict) else {}, value)
        else:
            after[name] = value
    return after


def _patched(before: Tree, operations: list[Tree]) -> Tree:
    after = {**before, "metadata": dict(before["metadata"])}
    for one in operations:
        *parents, last = one["path"].strip("/").split("/")
        place = after
        for parent in parents:
            place = place[parent]
        place[last] = one["value"]
    return after
