"""Readers of what comes over a socket, from a cluster or out of a file that a user was given."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import yaml

from bireme import errors
from bireme.backends.kubernetes import pod_logs
from bireme.backends.kubernetes.client import api_errors, decoding, kubeconfigs, login_plugins, pod_exec
from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api_errors import ApiError
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.client.kubeconfigs import Plugin
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.cli.render import render_jobs
from bireme.manifest import read as manifests
from bireme.manifest.rendering import render
from bireme.manifest.text.source import read_text
from bireme.runtime import wire
from bireme.runtime.mpi import execsocket
from bireme.runtime.records import log_echo
from bireme.sdk.cluster import cluster_views
from tests.fuzz.harness import Target
from tests.fuzz.mutating import DEPTH, Tree, plain_json
from tests.sdk import clusterobjects
from tests.unit.manifest.samples import EVERY
from tests.unit.manifest.test_mutations import RICH

NOW = 1_800_000_000.0
DEEP = b"[" * DEPTH + b"]" * DEPTH
DEEP_MAP = b'{"a":' * DEPTH + b"1" + b"}" * DEPTH
_SERVED = 10_000
"""The deepest nesting that an API server itself accepts."""
SOURCE = api_errors.RequestOrigin("https://127.0.0.1:1", "kind", "me", "GET", "/api/v1/pods")

ORDER = wire.ForkRequest(
    "rank-0",
    ("-m", "train"),
    {"A": "b"},
    "/",
    18,
    ("/sys/x",),
    (("/a", "/b", True),),
    True,
    {"RLIMIT_NOFILE": (1, 2)},
    (0,),
)
KUBECONFIG: Tree = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "kind",
    "contexts": [{"name": "kind", "context": {"cluster": "one", "user": "me", "namespace": "team"}}],
    "clusters": [
        {
            "name": "one",
            "cluster": {
                "server": "https://127.0.0.1:6443",
                "certificate-authority-data": base64.b64encode(b"no certificate").decode(),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://127.0.0.1:3128",
            },
        }
    ],
    "users": [{"name": "me", "user": {"token": "secret", "as": "you", "as-groups": ["us"]}}],
}
LOGGING_IN: Tree = {
    "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "aws",
        "args": ["eks", "get-token"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
    },
    "client-certificate-data": "eA==",
    "client-key-data": "eA==",
    "tokenFile": "token",
}
ENDED: Tree = {
    "status": "Failure",
    "reason": "NonZeroExitCode",
    "message": "command terminated with exit code 3",
    "code": 500,
    "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
}


def wire_frames(folder: Path) -> Target:
    """What a zygote and the runner's agent socket take apart."""
    messages: tuple[Tree, ...] = (
        {"op": "status"},
        json.loads(json.dumps(ORDER.message())),
        {"op": "signal", "id": "rank-0", "signal": 15},
    )

    def read(data: bytes) -> None:
        unpacker = wire.Unpacker()
        half = len(data) // 2
        for message in [*unpacker.feed(data[:half]), *unpacker.feed(data[half:])]:
            wire.read_fork_request({**messages[1], **message})

    def encode(tree: Tree) -> bytes:
        return _framed(plain_json(tree))

    corpus = (
        _framed(DEEP),
        struct.pack("!I", 2**32 - 1),
        _framed(b'{"umask": Infinity}'),
        _framed(b"1" * 5000),
    )
    return Target(
        "wire frames", tuple(map(wire.pack, messages)), read, (wire.WireError,), messages, encode, corpus
    )


def exec_frames(folder: Path) -> Target:
    """What the API server sends an agent in a pod over a WebSocket."""
    samples = tuple(
        bytes((0x80 | kind, len(payload))) + payload
        for kind, payload in ((2, b"\x01hello"), (9, b"ping"), (8, b"\x03\xe8bye"))
    )

    def read(data: bytes) -> None:
        frames = execsocket.Frames(data[:7])
        frames.add(data[7:])
        for _ in frames.complete():
            pass

    corpus = (b"\x82\x7f" + b"\xff" * 8, b"\x82\x7f" + (1 << 60).to_bytes(8, "big"), b"\x82\x7e\xff")
    return Target("exec frames", samples, read, (execsocket.Refused,), corpus=corpus)


def exec_head(folder: Path) -> Target:
    sample = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nContent-Length: 5\r\n\r\nhello"
    corpus = (
        b"",
        b"\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 \xb2\xb2\xb2 x\r\n\r\n",
    )
    return Target("exec head", (sample,), execsocket.read_head, (OSError,), corpus=corpus)


def exec_end(folder: Path) -> Target:
    pod: Tree = {
        "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "x"}}}]}
    }

    def read(data: bytes) -> None:
        execsocket.pod_state(data)
        execsocket.exit_code(data, began=False)

    return _json("exec end", (ENDED, {"status": "Success"}, pod), read, (execsocket.Refused,))


def exec_end_of_client(folder: Path) -> Target:
    return _json("exec end of client", (ENDED,), lambda data: pod_exec.exit_code(data, SOURCE), (ApiError,))


def kubeconfig(folder: Path) -> Target:
    path = folder / "config"
    login: Tree = {**KUBECONFIG, "users": [{"name": "me", "user": LOGGING_IN}]}

    def read(data: bytes) -> None:
        path.write_bytes(data)
        choice = kubeconfigs.choose(kubeconfigs.read([path]))
        access = Access(choice, {"HOME": str(folder), "PATH": str(folder)}, time, Random(1))
        repr((access, choice.user))
        if choice.user.plugin is None:
            with suppress(StopIteration):
                access.headers().send(None)  # without a plugin, it waits for nothing
        if choice.cluster.certificate_authority_data or choice.cluster.certificate_authority:
            access.ssl()  # otherwise it loads the machine's own authorities, which takes long

    samples = tuple(yaml.safe_dump(tree).encode() for tree in (KUBECONFIG, login))
    corpus = (
        DEEP,
        DEEP_MAP,
        b"- " * 20_000 + b"x",
        b"&a [*a]",
        b"a: &a {b: *a}",
        b"clusters: 2001-99-99",
        b'"\\UFFFFFFFF"',
        _bomb(),
        b"? [a]\n: b",
    )
    return Target("kubeconfig", samples, read, (errors.BiremeError,), (KUBECONFIG, login), corpus=corpus)


def plugin_output(folder: Path) -> Target:
    given: Tree = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {
            "token": "secret",
            "expirationTimestamp": "2026-11-15T23:08:28Z",
            "clientCertificateData": "x",
            "clientKeyData": "y",
        },
    }

    def read(data: bytes) -> None:
        found = login_plugins.credential(Plugin("aws"), data)
        assert found.expires is None or abs(found.expires) < 1e12

    return _json("plugin output", (given,), read, (errors.NoAccess,))


def api_answer(folder: Path) -> Target:
    """A page, an object, a line of a watch and a refusal, whatever of these the bytes look like."""
    job, pod = _plain(clusterobjects.job(clusterobjects.failed(9))), _plain(clusterobjects.pod("worker-0"))
    page: Tree = {"kind": "List", "metadata": {"resourceVersion": "7", "continue": "x"}, "items": [pod, pod]}
    changes: list[Tree] = [
        {"type": "ADDED", "object": pod},
        {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}},
    ]
    changes.append(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "code": 410,
                "reason": "Expired",
                "details": {"retryAfterSeconds": 3, "causes": []},
            },
        }
    )

    def read(data: bytes) -> None:
        type = (Pod, JobObject)[len(data) % 2]
        for step in (_page, _change):
            try:
                step(data, type)
            except ApiError as error:
                str(error)
                explained(error)
        api_errors.refusal(403, data, SOURCE, "3")
        decoding.decoded(data, Pod, SOURCE)

    return _json("API answer", (job, pod, page, *changes), read, (ApiError,))


def job_object(folder: Path) -> Target:
    """A job as anybody who may create one in a cluster can make it, as `ps` and `show` read it."""
    made: list[Tree] = [_plain(clusterobjects.job(clusterobjects.failed(9)))]
    made.append(
        {
            **_plain(clusterobjects.job(kind="Job", template={"spec": {"containers": [{"name": "x"}]}})),
            "status": {"active": 1, "startTime": clusterobjects.at(3)},
        }
    )
    pod = clusterobjects.pod("worker-0", clusterobjects.ended(1, 9))

    def read(data: bytes) -> None:
        found = decoding.decoded(data, JobObject, SOURCE)
        if found.kind not in ("PyTorchJob", "Job"):  # each resource has its own path, and its own kind
            return
        seen = cluster_views.seen("mnist", "kind", found, (pod,), NOW)
        cluster_views.glance(seen)
        render_jobs.shown(cluster_views.view(seen), NOW)

    return _json("job object", tuple(made), read, (ApiError,))


def pod_log(folder: Path) -> Target:
    samples = (
        b"2026-01-31T12:00:00.123456789Z loss: 0.5",
        b"2026-01-31T12:00:00Z " + log_echo.MARK.encode() + b'{"rank": 0}',
        b"2026-01-31T12:00:00+02:00 x\ry",
    )

    def read(data: bytes) -> None:
        mark = pod_logs.LogPosition(since=0.0)
        passed = mark.news()
        for line in data.split(b"\n"):
            if (new := passed(line)) is not None:
                render_jobs.moment(new[0])
                mark.query()

    corpus = (b"0001-01-01T00:00:00+23:59 x", b"9999-12-31T23:59:59-23:59 x", b"0001-01-01T00:00:00Z x")
    return Target("pod log", samples, read, corpus=corpus)


def manifest_yaml(folder: Path) -> Target:
    corpus = (
        DEEP,
        DEEP_MAP,
        b"- " * 20_000 + b"x",
        b"&a [*a]",
        _bomb(),
        b"script: train.py\nworkers: " + b"9" * 5000,
    )
    samples = tuple(text.encode() for text in (*EVERY.values(), RICH))
    return Target("YAML manifest", samples, _manifest, (errors.BadManifest,), corpus=corpus)


def manifest_json(folder: Path) -> Target:
    trees = tuple(yaml.safe_load_all(RICH))
    return Target(
        "JSON manifest",
        tuple(map(plain_json, trees)),
        _manifest,
        (errors.BadManifest,),
        trees,
        corpus=(DEEP, DEEP_MAP),
    )


TARGETS: tuple[Callable[[Path], Target], ...] = (
    wire_frames,
    exec_frames,
    exec_head,
    exec_end,
    exec_end_of_client,
    kubeconfig,
    plugin_output,
    api_answer,
    job_object,
    pod_log,
    manifest_yaml,
    manifest_json,
)


def _manifest(data: bytes) -> None:
    for one in manifests.read(read_text(data)).jobs:
        msgspec.json.encode(one.job)
        render(one)


def _page(data: bytes, type: Any) -> None:
    decoding.listed(data, type)


def _change(data: bytes, type: Any) -> None:
    decoding.change(data, type, SOURCE)


def _json(
    name: str, trees: tuple[Tree, ...], read: Callable[[bytes], object], allowed: tuple[type[Exception], ...]
) -> Target:
    deep = b"[" * _SERVED + b"]" * _SERVED
    corpus = (deep, b'{"status": ' + deep + b"}", b'{"items": [' + deep + b"]}", b'{"x": "\xff"}', b"")
    return Target(name, tuple(map(plain_json, trees)), read, allowed, trees, corpus=corpus)


def _plain(value: object) -> Tree:
    return json.loads(msgspec.json.encode(value))


def _framed(body: bytes) -> bytes:
    return struct.pack("!I", len(body)) + body


def _bomb() -> bytes:
    """A few lines that stand for 9**9 nodes."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 9)]
    return "\n".join(lines).encode()
