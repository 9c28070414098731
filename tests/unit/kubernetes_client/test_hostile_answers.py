"""What a cluster, a kubeconfig or a login plugin says is taken for what it may be: anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bireme.backends.kubernetes.client import api_errors, decoding
from bireme.backends.kubernetes.client.api import other_uid
from bireme.backends.kubernetes.client.api_errors import ApiError, RequestOrigin
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.objects.api_types import Pod
from bireme.backends.kubernetes.objects.job_objects import JobObject
from bireme.errors import BadInput, NoAccess
from tests.unit.kubernetes_client.server import find
from tests.unit.kubernetes_client.test_access import config, headers, plugin

SOURCE = RequestOrigin("https://127.0.0.1:1", "kind", "me", "GET", "/api/v1/pods")
LEVELS = 10_000
"""As deep as an API server accepts."""
DEEP = b"[" * LEVELS + b"]" * LEVELS


def job(name: bytes, spec: bytes = b"{}") -> bytes:
    return b'{"metadata": {"name": "%b", "resourceVersion": "7"}, "spec": {"x": %b}}' % (name, spec)


@pytest.mark.parametrize("text", ["'[' * 100000", "'- ' * 100000", "'{a: ' * 100000"])
def test_a_kubeconfig_that_is_nested_deeply_is_refused_and_does_not_end_the_process(
    tmp_path: Path, text: str
) -> None:
    program = (
        "import sys, pathlib\n"
        "from bireme.backends.kubernetes.client import kubeconfigs\n"
        "from bireme.errors import BadInput\n"
        f"pathlib.Path(sys.argv[1]).write_text({text})\n"
        "try: kubeconfigs.read([pathlib.Path(sys.argv[1])])\n"
        "except BadInput as error: print(error)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "config"], capture_output=True, text=True, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "levels are not read" in ended.stdout


@pytest.mark.parametrize(
    "text",
    [
        "&a [*a]",
        "users: 2001-99-99",
        "a: &a {b: *a}",
        '"\\UFFFFFFFF"',
        "\x00",
        "{current-context: a, clusters: [{name: a, cluster: {server: 'http://[x'}}], "
        "contexts: [{name: a, context: {cluster: a}}]}",
    ],
)
def test_a_kubeconfig_that_makes_no_sense_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)

    with pytest.raises(BadInput):
        find(kubeconfig=str(tmp_path / "config"), environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "user", [{"token": "a\nX-Evil: b"}, {"username": "a", "as": "b\r\nc"}, {"tokenFile": "a\0b"}]
)
def test_credentials_that_no_header_can_hold_are_refused(tmp_path: Path, user: dict[str, str]) -> None:
    access = find(kubeconfig=str(config(tmp_path, user=user)))

    with pytest.raises(NoAccess):
        headers(access)


def test_a_token_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"\xff\xfe")
    access = find(kubeconfig=str(config(tmp_path, user={"tokenFile": "token"})))

    with pytest.raises(NoAccess, match="token cannot be read"):
        headers(access)


@pytest.mark.parametrize(
    "status",
    [
        {"token": "t", "expirationTimestamp": "soon"},
        {"token": "t", "expirationTimestamp": "0001-01-01T00:00:00"},
    ],
)
def test_a_plugin_with_an_expiry_that_is_no_time_is_no_access(tmp_path: Path, status: dict[str, str]) -> None:
    access = find(kubeconfig=str(config(tmp_path, user=plugin(tmp_path, status))))

    with pytest.raises(NoAccess, match="no credential"):
        headers(access)


def test_a_plugin_that_prints_without_end_is_refused(tmp_path: Path) -> None:
    user = plugin(tmp_path, {})
    (tmp_path / "login").write_text("#!/bin/sh\nhead -c 30000000 /dev/zero\n")
    access = find(kubeconfig=str(config(tmp_path, user=user)))

    with pytest.raises(NoAccess, match="more than"):
        headers(access)


def test_a_plugin_with_a_zero_byte_in_its_arguments_is_refused(tmp_path: Path) -> None:
    access = find(kubeconfig=str(config(tmp_path, user=plugin(tmp_path, {}, args=["a\0b"]))))

    with pytest.raises(NoAccess, match="cannot be started"):
        headers(access)


def test_one_job_that_is_nested_deeply_does_not_hide_the_others() -> None:
    page = b'{"metadata": {"resourceVersion": "9"}, "items": [%b, %b, %b]}'

    found = decoding.listed(page % (job(b"a"), job(b"evil", DEEP), job(b"b")), JobObject)

    assert [one.metadata.name for one in found.items] == ["a", "b"]
    assert found.version == "9"


def test_one_job_whose_name_is_not_utf8_does_not_hide_the_others() -> None:
    page = b'{"metadata": {"resourceVersion": "9"}, "items": [%b, %b]}'

    found = decoding.listed(page % (job(b"\xff"), job(b"b")), JobObject)

    assert [one.metadata.name for one in found.items] == ["b"]


def test_a_watch_goes_on_after_a_job_that_is_nested_deeply() -> None:
    line = b'{"type":"ADDED","object":' + job(b"evil", DEEP) + b"}"

    assert decoding.change(line, JobObject, SOURCE) == decoding.Bookmark("7")


@pytest.mark.parametrize("body", [DEEP, b'{"metadata": {"name": "\xff"}}', b""])
def test_an_answer_that_is_no_object_is_an_error_of_the_client(body: bytes) -> None:
    with pytest.raises(ApiError):
        decoding.decoded(body, Pod, SOURCE)
    assert api_errors.refusal(403, body, SOURCE).status == 403


@pytest.mark.parametrize("causes", [[1, None, "x"], {"field": "metadata.uid"}, 7])
def test_a_refused_patch_whose_causes_are_no_objects_is_a_refusal(causes: object) -> None:
    assert not other_uid(ApiError(422, "Invalid", "no", {"causes": causes}))


def test_a_refusal_whose_causes_are_no_objects_is_explained() -> None:
    details = b'{"causes": [1, {"field": "x"}], "retryAfterSeconds": 1%b}' % (b"0" * 300)
    body = b'{"reason": "Invalid", "message": "no", "details": %b}' % details

    error = api_errors.refusal(422, body, SOURCE)

    assert error.retry_after == api_errors.LONGEST_RETRY
    assert "x" in str(explained(error))
