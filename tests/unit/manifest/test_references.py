"""ConfigMaps, Secrets and claims that stand beside a job are kept for it."""

from __future__ import annotations

import pytest

from bireme.manifest.references import References
from tests.unit.manifest.samples import JAXJOB, reading, refusal

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {rate: "0.1"}
binaryData: {blob: "/wA="}
"""

SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: login}
type: Opaque
data:
  user: YWxpY2U=
  password: b2xk
stringData: {password: new}
"""

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteMany]}
"""


def test_objects_beside_a_job() -> None:
    read = reading("---\n".join([CONFIG_MAP, SECRET, JAXJOB, CLAIM]))

    assert read.references == References(
        config_maps={"settings": {"rate": "0.1", "blob": "\udcff\0"}},
        secrets={"login": {"user": "alice", "password": "new"}},
        claims=frozenset({"data"}),
    )
    assert read.warnings == ()


def test_bytes_that_are_no_text_can_be_had_back() -> None:
    blob = reading(f"{CONFIG_MAP}---\n{JAXJOB}").references.config_maps["settings"]["blob"]

    assert blob.encode("utf-8", "surrogateescape") == b"\xff\x00"


def test_secrets_hide_their_values() -> None:
    shown = repr(reading(f"{SECRET}---\n{JAXJOB}"))

    assert "login" in shown
    assert "password" in shown
    assert "new" not in shown
    assert "alice" not in shown


@pytest.mark.parametrize(
    ("text", "diagnostic"),
    [
        (
            CONFIG_MAP.replace('"0.1"', "0.1"),
            "data.rate: wanted a text, found the number 0.1 (put it in quotes)",
        ),
        (CONFIG_MAP.replace("/wA=", "?"), "binaryData.blob: the value is not base64"),
        (
            SECRET.replace("YWxpY2U=", "alice!"),
            "data.user: the value is not base64 (write plain text under `stringData`)",
        ),
        (CONFIG_MAP.replace("{name: settings}", "{}"), "metadata.name: is missing"),
        (CLAIM.replace("metadata: {name: data}\n", ""), "metadata: is missing: the object needs a name"),
        (f"{SECRET}---\n{SECRET}", 'metadata: there are two Secrets named "login"'),
    ],
)
def test_bad_objects(text: str, diagnostic: str) -> None:
    (found,) = refusal(f"{text}---\n{JAXJOB}")

    assert found.endswith(diagnostic)


@pytest.mark.parametrize("key", ["../x", "a/b", "..", ".", "..data", "/etc/passwd", "a b"])
def test_a_key_that_is_no_file_name_is_refused(key: str) -> None:
    (diagnostic,) = refusal(f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{"{key}": "1"}}
---
{JAXJOB}""")

    assert f'data[{key}]: Invalid value: "{key}": a valid config key must consist of' in diagnostic


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret", "PersistentVolumeClaim"])
def test_an_object_whose_name_is_a_path_is_refused(kind: str) -> None:
    (diagnostic,) = refusal(f"apiVersion: v1\nkind: {kind}\nmetadata: {{name: ../x}}\n---\n{JAXJOB}")

    assert 'metadata.name: Invalid value: "../x": a lowercase RFC 1123 subdomain' in diagnostic
