"""Whatever a file holds, reading it ends in jobs or in BadManifest, with a sentence and soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bireme.errors import BadManifest
from bireme.manifest.read import Reading, read
from bireme.manifest.text.source import read_path
from tests.unit.manifest.samples import JAXJOB, JOB, PYTORCHJOB, TFJOB, outcome, with_container, with_pod

ALIAS_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

BAD = {
    "empty": ("", "the file is empty"),
    "only comments": ("# nothing\n---\n", "the file holds no document"),
    "tabs": (JAXJOB.replace("  jaxReplicaSpecs", "\tjaxReplicaSpecs"), ":5:1"),
    "duplicate keys": (JAXJOB.replace("kind: JAXJob", "kind: JAXJob\nkind: JAXJob"), ":3:1"),
    "unknown kind": (JAXJOB.replace("kind: JAXJob", "kind: JaxJob"), "did you mean JAXJob?"),
    "misspelt field": (
        JAXJOB.replace("jaxReplicaSpecs", "jaxReplicaSpec"),
        'did you mean "jaxReplicaSpecs"?',
    ),
    "negative replicas": (JAXJOB.replace("replicas: 2", "replicas: -2"), "must be at least 0, found -2"),
    "two chiefs": (TFJOB + "    Master: {template: *template}\n", "must not have more than 1 Chief"),
    "no containers": (with_pod("containers: []"), "containers: is missing"),
    "bad quantity": (
        with_container("resources: {limits: {cpu: 2 cores}}"),
        "is not a quantity|unknown suffix",
    ),
    "invalid pod name": (JAXJOB.replace("name: mnist", f"name: {'m' * 60}"), "-worker-1 would be invalid"),
    "circle": (
        with_container("env: [{name: A, value: $(B)}, {name: B, value: $(A)}]"),
        r"\$\(A\) -> \$\(B\) -> \$\(A\)",
    ),
    "10 MB": (JAXJOB + "#" * 10_000_000, "the manifest is too large"),
    "not UTF-8": (JAXJOB.encode() + b"# \xff\n", "byte 0xff at offset"),
    "alias bomb": (ALIAS_BOMB, "too many|at most|more than"),
    "5 000 levels": ("[" * 5000, "levels"),
    "5 000 levels of mappings": ("a: {" * 5000, "levels"),
    "binary": (bytes(range(256)) * 10, "not UTF-8|not allowed"),
}


@pytest.mark.parametrize(("content", "sentence"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_with_a_sentence(content: bytes | str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)

    begin = time.perf_counter()
    with pytest.raises(BadManifest, match=sentence) as caught:
        read(read_path(file))

    assert time.perf_counter() - begin < 5
    assert caught.value.exit_status == 2
    assert str(file) in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12


def test_a_missing_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadManifest, match="there is no such file or folder"):
        read(read_path(tmp_path / "missing.yaml"))


COUNT = 4000

LARGE = {
    "unknown fields": JAXJOB + "".join(f"x{index}: 1\n" for index in range(COUNT)),
    "unknown roles": PYTORCHJOB + "".join(f"    Wroker{index}: 1\n" for index in range(COUNT)),
    "mounts": with_container("volumeMounts: [" + "{name: v, mountPath: /a}, " * COUNT + "]"),
    "volumes": with_pod(
        "volumes: [" + "".join(f"{{name: v{i}, persistentVolumeclaim: 1}}, " for i in range(COUNT)) + "]"
    ),
    "resources": with_container("resources: {limits: {" + "".join(f"r{i}: 1, " for i in range(COUNT)) + "}}"),
    "containers": with_pod(
        "containers: [" + "".join(f"{{name: c{i}, image: x}}, " for i in range(COUNT)) + "]"
    ),
    "references to one": with_container(
        "env: [" + "".join(f"{{name: V{i}, value: $(V0)$(V{i + 1})}}, " for i in range(COUNT)) + "]"
    ),
    "jobs": "".join(f"---\n{JOB.replace('2024.sweep', f'job-{index}')}" for index in range(COUNT // 4)),
    "jobs of one name": f"---\n{JAXJOB}" * (COUNT // 4),
    "config maps": f"{JAXJOB}---\nkind: List\nitems:\n"
    + "".join(f"- {{kind: ConfigMap, metadata: {{name: m{index}}}}}\n" for index in range(COUNT)),
    "unknown kinds": "kind: List\nitems:\n" + "".join(f"- {{kind: Foo{index}}}\n" for index in range(COUNT)),
    "annotations": JAXJOB.replace(
        "{name: mnist}",
        "{name: mnist, annotations: {" + "".join(f"bireme.io/a{i}: b, " for i in range(COUNT)) + "}}",
    ),
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_a_large_manifest_takes_no_time(text: str) -> None:
    begin = time.perf_counter()
    found = outcome(text)

    # It takes a fraction of a second; what grew with the square of the size would take minutes.
    assert time.perf_counter() - begin < 5
    assert isinstance(found, Reading) or len(str(found).splitlines()) <= 12
