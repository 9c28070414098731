"""Do we recognise the server, and does it recognise us, over real TLS with certificates made for the test?"""

from __future__ import annotations

import base64
import json
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from bireme.backends.kubernetes.client.access import Access
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.api_errors import UNTRUSTED
from bireme.backends.kubernetes.client.kubeconfigs import ChosenContext, Cluster, Plugin, User
from tests.unit.kubernetes_client.server import run

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
NAME = "api.example"


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def certificate(folder: Path, name: str, *, issuer: str = "") -> None:
    """Makes `name`.key and `name`.crt, signed by the issuer or by itself."""
    at = str(folder / name)
    wanted = [
        "req",
        "-new",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    signed = ["-CA", f"{folder / issuer}.crt", "-CAkey", f"{folder / issuer}.key"] if issuer else []
    more = ["-addext", f"subjectAltName=DNS:{NAME}"] if issuer else []
    openssl(
        *wanted, "-x509", "-subj", f"/CN={name}", "-keyout", f"{at}.key", "-out", f"{at}.crt", *signed, *more
    )


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, a server's and a client's certificate, and a stranger's authority."""
    folder = tmp_path_factory.mktemp("papers")
    certificate(folder, "ca")
    certificate(folder, "stranger")
    certificate(folder, "server", issuer="ca")
    certificate(folder, "jane", issuer="ca")
    certificate(folder, "joe", issuer="ca")
    return folder


@asynccontextmanager
async def serving(papers: Path) -> AsyncIterator[str]:
    """Serves who shows a certificate, and tells them their name."""

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert")
        return web.json_response({"name": shown["subject"][0][0][1]})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers / "server.crt", papers / "server.key")
    context.load_verify_locations(papers / "ca.crt")
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/version", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def inline(papers: Path, name: str) -> str:
    return base64.b64encode((papers / name).read_bytes()).decode()


async def whoami(papers: Path, user: User, **cluster: Any) -> str:
    async with serving(papers) as server:
        access = Access(
            ChosenContext("test", "ns", Cluster(server=server, **cluster), user), {}, time, Random(1)
        )
        async with Api(access) as api:
            return str((await api.get("/version"))["name"])


def jane(papers: Path) -> User:
    return User(client_certificate=str(papers / "jane.crt"), client_key=str(papers / "jane.key"))


def test_certificates_in_files_are_shown_and_checked(papers: Path) -> None:
    authority = str(papers / "ca.crt")

    name = run(whoami(papers, jane(papers), certificate_authority=authority, tls_server_name=NAME))

    assert name == "jane"


def test_certificates_inside_the_kubeconfig_leave_no_file_behind(papers: Path) -> None:
    user = User(
        client_certificate_data=inline(papers, "jane.crt"), client_key_data=inline(papers, "jane.key")
    )
    authority = inline(papers, "ca.crt")

    name = run(whoami(papers, user, certificate_authority_data=authority, tls_server_name=NAME))

    assert name == "jane"
    left = [each.read_bytes() for each in Path(tempfile.gettempdir()).glob("bireme-*") if each.is_file()]
    key = (papers / "jane.key").read_bytes()
    assert not any(key in each for each in left)


def test_a_plugin_can_give_a_certificate(papers: Path, tmp_path: Path) -> None:
    shown = {
        "clientCertificateData": (papers / "joe.crt").read_text(),
        "clientKeyData": (papers / "joe.key").read_text(),
    }
    (tmp_path / "answer").write_text(json.dumps({"kind": "ExecCredential", "status": shown}))
    user = User(plugin=Plugin(shutil.which("cat") or "cat", args=(str(tmp_path / "answer"),)))

    name = run(whoami(papers, user, certificate_authority=str(papers / "ca.crt"), tls_server_name=NAME))

    assert name == "joe"


def test_a_server_of_another_authority_or_name_is_refused_at_once(papers: Path) -> None:
    stranger, authority = str(papers / "stranger.crt"), str(papers / "ca.crt")

    with pytest.raises(ApiError) as other_authority:
        run(whoami(papers, jane(papers), certificate_authority=stranger, tls_server_name=NAME))
    with pytest.raises(ApiError) as other_name:
        run(whoami(papers, jane(papers), certificate_authority=authority))

    assert other_authority.value.reason == UNTRUSTED
    assert other_name.value.reason == UNTRUSTED


def test_a_server_is_not_checked_where_the_kubeconfig_says_so(papers: Path) -> None:
    assert run(whoami(papers, jane(papers), insecure_skip_tls_verify=True)) == "jane"


def test_a_certificate_that_is_renewed_in_its_file_is_shown_from_then_on(
    papers: Path, tmp_path: Path
) -> None:
    async def story() -> list[str]:
        for kind in ("crt", "key"):
            shutil.copy(papers / f"jane.{kind}", tmp_path / f"mine.{kind}")
        user = User(client_certificate=str(tmp_path / "mine.crt"), client_key=str(tmp_path / "mine.key"))
        async with serving(papers) as server:
            cluster = Cluster(
                server=server, certificate_authority=str(papers / "ca.crt"), tls_server_name=NAME
            )
            access = Access(ChosenContext("test", "ns", cluster, user), {}, time, Random(1))
            async with Api(access) as api:
                names = [(await api.get("/version"))["name"]]
                for kind in ("crt", "key"):
                    shutil.copy(papers / f"joe.{kind}", tmp_path / f"mine.{kind}")
                access.renew()
                names.append((await api.get("/version"))["name"])
        return names

    assert run(story()) == ["jane", "joe"]
