"""What does a login plugin give: a token or a certificate, and until when.

The protocol is `client.authentication.k8s.io`: the plugin reads KUBERNETES_EXEC_INFO and prints an
ExecCredential.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from bireme.backends.kubernetes.kubeconfigs import Cluster, Plugin
from bireme.errors import NoAccess

LIMIT = 60.0
"""Seconds that a plugin may take by itself."""
INTERACTIVE_LIMIT = 600.0
"""Seconds that it may take while someone logs in."""
VERSIONS = ("v1", "v1beta1", "v1alpha1")


class Credential(Struct, frozen=True, rename="camel"):
    """What a plugin gives; hides itself when printed."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""

    def __repr__(self) -> str:
        return "Credential(...)"

    @property
    def expires(self) -> float | None:
        """Seconds since 1970, or None if it holds until it is refused."""
        if not self.expiration_timestamp:
            return None
        return datetime.fromisoformat(self.expiration_timestamp).timestamp()


async def login(plugin: Plugin, cluster: Cluster, environ: Mapping[str, str]) -> Credential:
    """Runs the plugin and returns what it gives; raises NoAccess with what it said otherwise."""
    if plugin.api_version.rpartition("/")[2] not in VERSIONS:
        raise NoAccess(f"the login plugin {plugin.command} wants {plugin.api_version}, which we do not speak")
    terminal = sys.stdin is not None and sys.stdin.isatty()
    interactive = terminal and plugin.interactive_mode != "Never"
    if plugin.interactive_mode == "Always" and not terminal:
        raise NoAccess(
            f"the login plugin {plugin.command} wants to ask you something, and there is no terminal",
            hint="run the command in a terminal first, or use other credentials here",
        )
    given = _environment(plugin, cluster, environ, interactive)
    output = await _output(plugin, given, interactive)
    return _read(plugin, output)


class _ExecCredential(Struct):
    kind: str = ""
    status: Credential = Credential()


def _environment(
    plugin: Plugin, cluster: Cluster, environ: Mapping[str, str], interactive: bool
) -> dict[str, str]:
    spec: dict[str, Any] = {"interactive": interactive}  # JSON
    if plugin.provide_cluster_info:
        spec["cluster"] = _told(cluster)
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {
        **environ,
        **{each.name: each.value for each in plugin.env},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }


def _told(cluster: Cluster) -> dict[str, object]:
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": cluster.certificate_authority_data,
        "proxy-url": cluster.proxy_url,
    }
    return {key: value for key, value in told.items() if value}


async def _output(plugin: Plugin, environ: Mapping[str, str], interactive: bool) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environ,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Someone who logs in has to see what the plugin asks for.
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NoAccess(
            f"the login plugin {plugin.command} cannot be started: {error.strerror}",
            hint=plugin.install_hint or "install it, or correct `command` in the kubeconfig",
        ) from error
    limit = INTERACTIVE_LIMIT if interactive else LIMIT
    try:
        async with asyncio.timeout(limit):
            output, said = await process.communicate()
    except TimeoutError:
        raise NoAccess(f"the login plugin {plugin.command} gave no answer within {limit:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        words = (said or b"").decode(errors="replace").strip().splitlines()[-3:]
        raise NoAccess(
            f"the login plugin {plugin.command} failed with exit status {process.returncode}"
            + (f": {' '.join(words)}" if words else ""),
            hint=f"run it by hand: {' '.join([os.path.basename(plugin.command), *plugin.args])}",
        )
    return output


def _read(plugin: Plugin, output: bytes) -> Credential:
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential).status
    except msgspec.MsgspecError as error:
        raise NoAccess(f"the login plugin {plugin.command} printed no credential ({error})") from error
    if not credential.token and not (credential.client_certificate_data and credential.client_key_data):
        raise NoAccess(f"the login plugin {plugin.command} gave neither a token nor a certificate")
    return credential
