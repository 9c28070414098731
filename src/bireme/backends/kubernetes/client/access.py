"""Finds the API server and the credentials for it, as kubectl does."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from random import Random
from urllib.parse import SplitResult, urlsplit

from bireme.backends.kubernetes.client import kubeconfigs, login_plugins
from bireme.backends.kubernetes.client.kubeconfigs import ChosenContext, Cluster, User
from bireme.core.clock import Clock
from bireme.errors import BadInput, NoAccess

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
FRESH = 10.0
"""Seconds for which a token or certificate file is not looked at again, and that a token must still hold."""


class Access:
    """The address of an API server and the credentials for it; renews what expires.

    It carries the clock and the source of chance for everything that speaks to that server.
    """

    def __init__(
        self, choice: ChosenContext, environ: Mapping[str, str], clock: Clock, chance: Random
    ) -> None:
        self.clock, self.chance = clock, chance
        self.server = choice.cluster.server
        self.namespace = choice.namespace
        self.context = choice.context
        self.user = choice.user_name
        self.tls_server_name = choice.cluster.tls_server_name
        self._environ = dict(environ)
        self.proxy = _proxy(choice.cluster, self._environ)
        self._cluster = choice.cluster
        self._user = choice.user
        self._credential: login_plugins.Credential | None = None
        self._token = ""
        self._token_read = 0.0
        self._ssl: ssl.SSLContext | None = None
        self._ssl_of: tuple[object, ...] = ()
        self._ssl_checked = 0.0
        self._turn: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def __repr__(self) -> str:
        return f"Access({self.server}, context={self.context!r}, user={self.user!r})"

    def ssl(self) -> ssl.SSLContext | None:
        """Returns how the server is recognised and what we show it; None if it speaks plain HTTP.

        A certificate from a plugin is in it once `headers` was called.
        """
        if not self.server.startswith("https:"):
            return None
        now = self.clock.monotonic()
        if self._ssl is not None and now - self._ssl_checked <= FRESH:
            return self._ssl
        # Certificates in files are renewed by others while we run.
        self._ssl_checked = now
        user = self._user
        files = (self._cluster.certificate_authority, user.client_certificate, user.client_key)
        made_of = (self._credential, *map(_stamp, files))
        if made_of != self._ssl_of or self._ssl is None:
            try:
                self._ssl = _context(self._cluster, user, self._credential)
            except NoAccess:
                # A certificate that is being replaced does not fit its key for a moment, and the old one
                # is still valid.
                if self._ssl is None:
                    raise
            self._ssl_of = made_of
        return self._ssl

    async def headers(self) -> dict[str, str]:
        """Returns the headers that say who we are, with a token that still holds."""
        headers: dict[str, str] = {}
        user = self._user
        if user.impersonated:
            headers["Impersonate-User"] = user.impersonated
            if user.impersonated_uid:
                headers["Impersonate-Uid"] = user.impersonated_uid
            if user.impersonated_groups:
                headers["Impersonate-Group"] = user.impersonated_groups[0]
        if token := await self._bearer():
            headers["Authorization"] = f"Bearer {token}"
        elif user.username:
            pair = base64.b64encode(f"{user.username}:{user.password}".encode(errors="replace")).decode()
            headers["Authorization"] = f"Basic {pair}"
        for name, value in headers.items():
            if not value.isprintable():
                raise NoAccess(
                    f"the credentials for {self.server} cannot be sent: {name} holds a line break, "
                    "or another character that no header can hold"
                )
        return headers

    def renew(self) -> bool:
        """Forgets what the server refused; False if asking again would give the same."""
        self._token_read = 0.0
        had = self._credential is not None
        self._credential = None
        self._ssl_checked = 0.0
        return had or bool(self._user.token_file)

    async def _bearer(self) -> str:
        user = self._user
        if user.token_file:
            now = self.clock.monotonic()
            if not self._token_read or now - self._token_read > FRESH:
                try:
                    self._token = Path(user.token_file).read_text().strip()
                except (OSError, ValueError) as error:  # ValueError: it is no text, or its path is none
                    reason = error.strerror if isinstance(error, OSError) else error
                    raise NoAccess(f"the token cannot be read: {reason}", where=user.token_file) from error
                self._token_read = now
            return self._token
        if user.token:
            return user.token
        if user.plugin is None:
            return user.auth_provider.config.get("id-token", "") if user.auth_provider else ""
        # One plugin runs at a time. A lock belongs to one event loop, and we may see several.
        loop = asyncio.get_running_loop()
        if self._turn is None or self._turn[0] is not loop:
            self._turn = (loop, asyncio.Lock())
        async with self._turn[1]:
            expires = self._credential.expires if self._credential is not None else None
            ends_soon = expires is not None and expires - self.clock.time() < FRESH
            if self._credential is None or ends_soon:
                self._credential = await login_plugins.login(user.plugin, self._cluster, self._environ)
                self._ssl_checked = 0.0
            return self._credential.token


def find(
    clock: Clock,
    chance: Random,
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environ: Mapping[str, str] | None = None,
    service_account: str = SERVICE_ACCOUNT,
) -> Access:
    """Finds the cluster as kubectl does: the file given, KUBECONFIG, ~/.kube/config, the pod we are in."""
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or Path.home())
    listed = [kubeconfig] if kubeconfig else environ.get("KUBECONFIG", "").split(os.pathsep)
    named = [home / each[2:] if each.startswith("~/") else Path(each) for each in listed if each]
    files = named or [home / ".kube" / "config"]
    merged = kubeconfigs.read(files)
    if kubeconfig and not merged.files:
        raise BadInput("there is no such kubeconfig", where=kubeconfig)
    if merged.contexts:
        return Access(kubeconfigs.choose(merged, context or ""), environ, clock, chance)
    account = Path(service_account)
    chosen = kubeconfig or context
    if not chosen and environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").is_file():
        return Access(_in_cluster(account, environ), environ, clock, chance)
    looked = ", ".join(map(str, files))
    raise NoAccess(
        f"no cluster is configured: no context in {looked}, and this is not a pod with a service account",
        hint="name a kubeconfig with --kubeconfig FILE or KUBECONFIG=FILE",
    )


def _in_cluster(account: Path, environ: Mapping[str, str]) -> ChosenContext:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = account / "namespace"
    return ChosenContext(
        "in-cluster",
        namespace.read_text().strip() if namespace.is_file() else "default",
        Cluster(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            certificate_authority=str(account / "ca.crt"),
        ),
        User(token_file=str(account / "token")),
        "service account",
    )


def _proxy(cluster: Cluster, environ: Mapping[str, str]) -> str:
    """The proxy of the kubeconfig, or else of the environment, which only it may except the server from."""
    if cluster.proxy_url:
        if _parted(cluster.proxy_url, "proxy-url").scheme not in ("http", "https"):
            raise BadInput(f"proxy-url {cluster.proxy_url} is neither http nor https")
        return cluster.proxy_url
    address = _parted(cluster.server, "server")
    name = f"{address.scheme}_proxy"
    proxy = environ.get(name) or environ.get(name.upper()) or ""
    excepted = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not proxy or urllib.request.proxy_bypass_environment(address.netloc, {"no": excepted}):  # type: ignore[attr-defined]
        return ""
    return proxy


def _parted(url: str, field: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise BadInput(f"{field} {url!r} is not an address: {error}") from error


def _stamp(file: str) -> object:
    try:
        return os.stat(file).st_mtime_ns if file else None
    except (OSError, ValueError):
        return None


def _context(cluster: Cluster, user: User, credential: login_plugins.Credential | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=cluster.certificate_authority or None,
            cadata=_decoded(cluster.certificate_authority_data) or None,
        )
        # Many clusters' own authorities lack the extensions that Python 3.13 began to insist on.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.set_alpn_protocols(["http/1.1"])
        if cluster.insecure_skip_tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        # Our own certificate, if we have one.
        if credential is not None and credential.client_certificate_data:
            _load(context, credential.client_certificate_data, credential.client_key_data)
        elif user.client_certificate_data or user.client_certificate:
            certificate = _decoded(user.client_certificate_data) or Path(user.client_certificate).read_text()
            in_file = Path(user.client_key).read_text() if user.client_key else ""
            _load(context, certificate, _decoded(user.client_key_data) or in_file)
    except (OSError, ValueError) as error:
        raise NoAccess(f"the certificates for {cluster.server} cannot be used: {error}") from error
    return context


def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Loads a pair through a file that only we can read, and only for now: Python knows no other way."""
    with tempfile.NamedTemporaryFile("w", prefix="bireme-") as file:
        file.write(f"{certificate}\n{key}")
        file.flush()
        context.load_cert_chain(file.name)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode() if data else ""
