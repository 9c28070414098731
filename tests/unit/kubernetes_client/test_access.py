"""Is the cluster found as kubectl finds it, and are we who the kubeconfig says?"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.kubeconfigs import User
from bireme.errors import BadInput, NoAccess
from tests.unit.kubernetes_client.server import access, find, run, serving


def config(folder: Path, name: str = "config", **changes: Any) -> Path:
    """Writes a kubeconfig with one context, cluster and user, each with the name given by `at`."""
    at = changes.pop("at", "one")
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": changes.pop("current", at),
        "contexts": [{"name": at, "context": {"cluster": at, "user": at, **changes.pop("context", {})}}],
        "clusters": [
            {"name": at, "cluster": {"server": f"https://{at}:6443/", **changes.pop("cluster", {})}}
        ],
        "users": [{"name": at, "user": changes.pop("user", {})}],
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(json.dumps(tree))
    return file


def plugin(folder: Path, status: dict[str, str], **more: Any) -> dict[str, Any]:
    """Writes a login plugin that prints its status and appends what it was told to a file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "login"
    answer = json.dumps({"apiVersion": "x", "kind": "ExecCredential", "status": status})
    file.write_text(f'#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> {folder}/told\ncat <<END\n{answer}\nEND\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login", **more}}


def headers(where: Access) -> dict[str, str]:
    return asyncio.run(where.headers())


def test_the_default_file_is_in_the_home_folder(tmp_path: Path) -> None:
    config(tmp_path / ".kube", context={"namespace": "team"})

    found = find(environ={"HOME": str(tmp_path)})

    assert (found.server, found.context, found.namespace, found.user) == (
        "https://one:6443",
        "one",
        "team",
        "one",
    )


def test_the_file_given_wins_over_the_environment(tmp_path: Path) -> None:
    given = config(tmp_path, "given", at="given")
    other = config(tmp_path, "other", at="other")

    assert find(kubeconfig=str(given), environ={"KUBECONFIG": str(other)}).context == "given"


def test_of_several_files_the_first_that_names_a_thing_wins(tmp_path: Path) -> None:
    first = config(tmp_path, "first", at="one", current=None, user={"token": "first"})
    second = config(tmp_path, "second", at="two", user={"token": "second"})
    third = config(tmp_path, "third", at="one", user={"token": "third"})
    environ = {
        "KUBECONFIG": os.pathsep.join(["", str(first), str(tmp_path / "none"), str(second), str(third)])
    }

    assert find(environ=environ).context == "two"
    assert headers(find(environ=environ, context="one")) == {"Authorization": "Bearer first"}


def test_a_context_that_does_not_exist_is_said_with_the_nearest(tmp_path: Path) -> None:
    file = config(tmp_path, at="production")

    with pytest.raises(BadInput, match="no context 'prodution'") as caught:
        find(kubeconfig=str(file), context="prodution")
    assert caught.value.hint == "did you mean production?"
    assert caught.value.where == str(file)


def test_without_a_current_context_the_known_ones_are_named(tmp_path: Path) -> None:
    file = config(tmp_path, current="")

    with pytest.raises(BadInput, match="no context is chosen") as caught:
        find(kubeconfig=str(file))
    assert "one" in caught.value.hint


@pytest.mark.parametrize("text", ["{", "[]", "contexts: 3", "a: b: c"])
def test_a_file_that_is_no_kubeconfig_is_said_with_its_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(BadInput, match="not a kubeconfig") as caught:
        find(kubeconfig=str(file))
    assert caught.value.where == str(file)


def test_nothing_configured_is_no_access_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoAccess, match="no cluster is configured") as caught:
        find(environ={"HOME": str(tmp_path)}, service_account=str(tmp_path))
    assert "--kubeconfig" in caught.value.hint

    with pytest.raises(BadInput, match="no such kubeconfig"):
        find(kubeconfig=str(tmp_path / "none"))


def test_a_pod_uses_its_service_account_and_reads_its_token_anew(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "namespace").write_text("team")
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    found = find(environ=environ, service_account=str(tmp_path))

    assert (found.server, found.namespace, found.context) == ("https://[fd00::1]:443", "team", "in-cluster")
    assert headers(found) == {"Authorization": "Bearer one"}
    (tmp_path / "token").write_text("two\n")
    assert found.renew()
    assert headers(found) == {"Authorization": "Bearer two"}


def test_a_token_file_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "secret").write_text("t\n")
    file = config(tmp_path / "deep", user={"tokenFile": "secret", "token": None})

    assert headers(find(kubeconfig=str(file))) == {"Authorization": "Bearer t"}


def test_a_name_and_password_are_sent_as_such(tmp_path: Path) -> None:
    file = config(tmp_path, user={"username": "jane", "password": "pässword"})

    sent = headers(find(kubeconfig=str(file)))["Authorization"]

    assert base64.b64decode(sent.removeprefix("Basic ")).decode() == "jane:pässword"


def test_someone_else_is_impersonated(tmp_path: Path) -> None:
    file = config(tmp_path, user={"token": "t", "as": "bot", "as-groups": ["robots"]})

    assert headers(find(kubeconfig=str(file))) == {
        "Authorization": "Bearer t",
        "Impersonate-User": "bot",
        "Impersonate-Group": "robots",
    }


def test_a_plugin_logs_in_once_and_is_told_about_the_cluster(tmp_path: Path) -> None:
    user = plugin(tmp_path, {"token": "from-plugin"}, provideClusterInfo=True)
    found = find(kubeconfig=str(config(tmp_path, user=user)))

    async def twice() -> list[dict[str, str]]:
        return list(await asyncio.gather(found.headers(), found.headers()))

    assert asyncio.run(twice()) == [{"Authorization": "Bearer from-plugin"}] * 2
    told = (tmp_path / "told").read_text().splitlines()
    assert len(told) == 1
    assert json.loads(told[0])["apiVersion"] == "client.authentication.k8s.io/v1"
    assert json.loads(told[0])["spec"]["cluster"] == {"server": "https://one:6443"}


def test_a_plugin_is_asked_again_before_its_token_expires(tmp_path: Path) -> None:
    soon = datetime.fromtimestamp(time.time() + 5, UTC).isoformat()
    found = find(
        kubeconfig=str(config(tmp_path, user=plugin(tmp_path, {"token": "t", "expirationTimestamp": soon})))
    )

    headers(found)
    headers(found)

    assert len((tmp_path / "told").read_text().splitlines()) == 2


def test_a_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("#!/bin/sh\necho 'your session has expired' >&2\nexit 3\n")
    file.chmod(0o700)
    found = find(
        kubeconfig=str(config(tmp_path, user={"exec": {"command": str(file), "args": ["--to", "x"]}}))
    )

    with pytest.raises(NoAccess, match="exit status 3: your session has expired") as caught:
        headers(found)
    assert caught.value.hint == "run it by hand: login --to x"


def test_a_plugin_that_is_missing_is_said_with_its_own_hint(tmp_path: Path) -> None:
    user = {"exec": {"command": "no-such-login", "installHint": "apt install login"}}
    found = find(kubeconfig=str(config(tmp_path, user=user)))

    with pytest.raises(NoAccess, match="no-such-login cannot be started") as caught:
        headers(found)
    assert caught.value.hint == "apt install login"


@pytest.mark.parametrize("output", ["", "no json", '{"status": {}}'])
def test_a_plugin_that_gives_nothing_is_no_access(tmp_path: Path, output: str) -> None:
    file = tmp_path / "login"
    file.write_text(f"#!/bin/sh\necho '{output}'\n")
    file.chmod(0o700)

    with pytest.raises(NoAccess, match="login plugin"):
        headers(find(kubeconfig=str(config(tmp_path, user={"exec": {"command": str(file)}}))))


def test_a_token_that_the_server_refuses_is_renewed_once(tmp_path: Path) -> None:
    async def story() -> None:
        token = tmp_path / "token"
        token.write_text("old")
        seen: list[str] = []

        async def handler(request: web.Request) -> web.StreamResponse:
            seen.append(request.headers["Authorization"])
            token.write_text("new")
            return web.json_response({}, status=401 if seen[-1] == "Bearer old" else 200)

        async with serving(handler) as where, Api(access(where.server, User(token_file=str(token)))) as api:
            await api.get("/version")
        assert seen == ["Bearer old", "Bearer new"]

    run(story())


def test_the_proxy_of_the_kubeconfig_is_used() -> None:
    async def story() -> None:
        async def handler(request: web.Request) -> web.StreamResponse:
            return web.json_response({"asked": str(request.headers["Host"])})

        async with serving(handler) as where:
            behind = access("http://cluster.invalid:6443", proxy_url=where.server)
            async with Api(behind) as api:
                assert (await api.get("/version"))["asked"] == "cluster.invalid:6443"

    run(story())


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ({"https_proxy": "http://p:1", "NO_PROXY": "other,one"}, ""),
        ({"HTTP_PROXY": "http://p:1"}, ""),
        ({}, ""),
    ],
)
def test_the_proxy_of_the_environment_is_used_unless_it_excepts_the_server(
    tmp_path: Path, environ: dict[str, str], proxy: str
) -> None:
    assert find(kubeconfig=str(config(tmp_path)), environ=environ).proxy == proxy


def test_secrets_do_not_show_when_printed(tmp_path: Path) -> None:
    found = find(kubeconfig=str(config(tmp_path, user={"token": "very-secret", "password": "also-secret"})))

    assert "secret" not in repr(found)
    assert "secret" not in repr(User(token="very-secret"))


def test_a_certificate_that_cannot_be_used_is_no_access(tmp_path: Path) -> None:
    broken = base64.b64encode(b"no certificate").decode()
    file = config(tmp_path, cluster={"certificate-authority-data": broken})

    with pytest.raises(NoAccess, match="the certificates for https://one:6443 cannot be used"):
        find(kubeconfig=str(file)).ssl()
