"""What does an API server keep: objects with versions, their history, and what a write does to them.

Everything here takes effect at once. How long a request takes and what goes wrong with it is the network's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from bireme.backends.kubernetes.objects.job_status import timestamp

Tree = dict[str, Any]
"""An object as JSON gives it."""
Key = tuple[str, str]
"""Namespace and name."""

PODS, NODES = "pods", "nodes"
GRACE = 30
_FINAL = ("Succeeded", "Failed")


class Refused(Exception):
    """The server says no."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code, self.reason, self.message = code, reason, message


class Told:
    """One change of one object, as watches tell it."""

    def __init__(self, version: int, at: float, plural: str, type: str, tree: Tree) -> None:
        self.version, self.at, self.plural, self.type, self.tree = version, at, plural, type, tree
        self._encoded = b""

    @property
    def key(self) -> Key:
        return key_of(self.tree)

    @property
    def encoded(self) -> bytes:
        if not self._encoded:
            self._encoded = msgspec.json.encode(self.tree)
        return self._encoded

    @property
    def line(self) -> bytes:
        return b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.encoded)


class Server:
    """The objects of a cluster; one counter gives the versions of all of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._uids = 0
        self.version = 1
        self.compacted = 0
        """Watches that begin before this version are refused."""
        self.objects: dict[str, dict[Key, Tree]] = defaultdict(dict)
        self.history: dict[str, list[Told]] = defaultdict(list)
        self.listeners: list[Callable[[Told], None]] = []

    def get(self, plural: str, key: Key) -> Tree:
        found = self.objects[plural].get(key)
        if found is None:
            raise Refused(404, "NotFound", f'{plural} "{key[1]}" not found')
        return found

    def find(self, plural: str, uid: str) -> Tree | None:
        return next((one for one in self.objects[plural].values() if one["metadata"]["uid"] == uid), None)

    def create(self, plural: str, namespace: str, body: Tree) -> Tree:
        metadata = {**body["metadata"], "namespace": namespace} if namespace else dict(body["metadata"])
        key = (namespace, metadata["name"])
        if key in self.objects[plural]:
            raise Refused(409, "AlreadyExists", f'{plural} "{key[1]}" already exists')
        self._uids += 1
        metadata |= {
            "uid": f"uid-{self._uids}",
            "generation": 1,
            "creationTimestamp": timestamp(self._clock()),
        }
        return self._commit("ADDED", plural, {**body, "metadata": metadata})

    def write(self, plural: str, key: Key, body: Tree) -> Tree:
        """Replace an object: a new spec is a new generation, and what is the same has no new version."""
        before = self.get(plural, key)
        wanted = body["metadata"].get("resourceVersion")
        if wanted and wanted != before["metadata"]["resourceVersion"]:
            raise Refused(
                409, "Conflict", f'Operation cannot be fulfilled on {plural} "{key[1]}": it was modified'
            )
        if body == before:
            return before
        generation = before["metadata"]["generation"] + (body.get("spec") != before.get("spec"))
        kept = {name: before["metadata"][name] for name in ("uid", "creationTimestamp")}
        after = {**body, "metadata": {**body["metadata"], **kept, "generation": generation}}
        return self._commit("MODIFIED", plural, after)

    def change(self, plural: str, key: Key, **fields: object) -> Tree:
        """Change fields of an object that is there, whatever its version."""
        before = self.get(plural, key)
        return self.write(plural, key, {**before, **fields})

    def delete(self, plural: str, key: Key, uid: str = "", grace: int | None = None) -> Tree:
        """Ask for the end of an object; a pod that runs has its grace. Returns what is left of it."""
        tree = self.get(plural, key)
        metadata = tree["metadata"]
        if uid and uid != metadata["uid"]:
            raise Refused(
                409,
                "Conflict",
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}",
            )
        if plural != PODS:
            return self._commit("DELETED", plural, tree)
        seconds = _grace(tree, grace)
        known = metadata.get("deletionGracePeriodSeconds")
        if known is not None and seconds >= known:
            return tree if known else self.remove(key, metadata["uid"])
        marks = {
            "deletionTimestamp": timestamp(self._clock() + seconds),
            "deletionGracePeriodSeconds": seconds,
        }
        left = self.write(plural, key, {**tree, "metadata": {**metadata, **marks}})
        return left if seconds else self.remove(key, metadata["uid"])

    def remove(self, key: Key, uid: str) -> Tree:
        """End a pod for good; finalizers keep what is left of it for a while."""
        tree = self.get(PODS, key)
        metadata = tree["metadata"]
        if metadata["uid"] != uid:
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition")
        if not metadata.get("finalizers"):
            return self._commit("DELETED", PODS, tree)
        since = metadata.get("deletionTimestamp") or timestamp(self._clock())
        marks = {"deletionTimestamp": since, "deletionGracePeriodSeconds": 0}
        return self.write(PODS, key, {**tree, "metadata": {**metadata, **marks}})

    def list(self, plural: str, version: int) -> Iterator[Told]:
        """The objects of a resource as they were at a version."""
        there: dict[Key, Told] = {}
        for told in self.history[plural]:
            if told.version > version:
                break
            if told.type == "DELETED":
                there.pop(told.key, None)
            else:
                there[told.key] = told
        return iter(there.values())

    def version_at(self, time: float) -> int:
        """The last version that was there at a time."""
        return max(
            (one.version for each in self.history.values() for one in each if one.at <= time), default=1
        )

    def _commit(self, type: str, plural: str, tree: Tree) -> Tree:
        self.version += 1
        tree = {**tree, "metadata": {**tree["metadata"], "resourceVersion": str(self.version)}}
        key = key_of(tree)
        if type == "DELETED":
            del self.objects[plural][key]
        else:
            self.objects[plural][key] = tree
        told = Told(self.version, self._clock(), plural, type, tree)
        self.history[plural].append(told)
        for listener in self.listeners:
            listener(told)
        return tree


def key_of(tree: Tree) -> Key:
    metadata = tree["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def owner_of(tree: Tree) -> str:
    """The uid of the job that an object belongs to."""
    return next((one["uid"] for one in tree["metadata"].get("ownerReferences", ())), "")


def is_deleting(tree: Tree) -> bool:
    return "deletionTimestamp" in tree["metadata"]


def matches(tree: Tree, selector: str) -> bool:
    """Whether an object has the labels: `a=b` for a value, `a` for any."""
    labels = tree["metadata"].get("labels", {})
    for part in filter(None, selector.split(",")):
        name, equals, value = part.partition("=")
        if name not in labels or (equals and labels[name] != value):
            return False
    return True


def _grace(pod: Tree, asked: int | None) -> int:
    """A pod that nobody runs, or that has ended, goes at once."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in _FINAL:
        return 0
    own = pod["spec"].get("terminationGracePeriodSeconds", GRACE)
    return int(own if asked is None else asked)
