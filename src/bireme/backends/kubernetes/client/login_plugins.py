"""Runs login plugins: each gives a token or a certificate, and says until when.

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

from bireme.backends.kubernetes.client.kubeconfigs import Cluster, Plugin
from bireme.errors import NoAccess
from bireme.model.decode_errors import DAMAGED

LIMIT = 60.0
"""Seconds that a plugin may take by itself."""
INTERACTIVE_LIMIT = 600.0
"""Seconds that it may take while someone logs in."""
MOST_OUTPUT = 4 << 20
"""Bytes that a plugin may print; a credential has a few thousand."""
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
        return _moment(self.expiration_timestamp)


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
    spec: dict[str, Any] = {"interactive": interactive}  # JSON
    if plugin.provide_cluster_info:
        told = {
            "server": cluster.server,
            "tls-server-name": cluster.tls_server_name,
            "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
            "certificate-authority-data": cluster.certificate_authority_data,
            "proxy-url": cluster.proxy_url,
        }
        spec["cluster"] = {key: value for key, value in told.items() if value}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    given = {
        **environ,
        **{variable.name: variable.value for variable in plugin.env},
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode(),
    }
    return credential(plugin, await _output(plugin, given, interactive))


class _ExecCredential(Struct):
    kind: str = ""
    status: Credential = Credential()


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
    except (OSError, ValueError) as error:  # ValueError: a zero byte in one of its words
        reason = error.strerror if isinstance(error, OSError) else error
        raise NoAccess(
            f"the login plugin {plugin.command} cannot be started: {reason}",
            hint=plugin.install_hint or "install it, or correct `command` in the kubeconfig",
        ) from error
    limit = INTERACTIVE_LIMIT if interactive else LIMIT
    try:
        async with asyncio.timeout(limit):
            output, said = await asyncio.gather(_printed(process.stdout), _printed(process.stderr))
            await process.wait()
    except TimeoutError:
        raise NoAccess(f"the login plugin {plugin.command} gave no answer within {limit:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if len(output) > MOST_OUTPUT:
        raise NoAccess(f"the login plugin {plugin.command} printed more than {MOST_OUTPUT >> 20} MiB")
    if process.returncode != 0:
        words = said.decode(errors="replace").strip().splitlines()[-3:]
        raise NoAccess(
            f"the login plugin {plugin.command} failed with exit status {process.returncode}"
            + (f": {' '.join(words)}" if words else ""),
            hint=f"run it by hand: {' '.join([os.path.basename(plugin.command), *plugin.args])}",
        )
    return output


def _moment(written: str) -> float | None:
    return datetime.fromisoformat(written).timestamp() if written else None


async def _printed(stream: asyncio.StreamReader | None) -> bytes:
    """Reads to the end, and keeps no more than tells that it is too much."""
    kept = b""
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece[: MOST_OUTPUT + 1 - len(kept)]
    return kept


def credential(plugin: Plugin, output: bytes) -> Credential:
    """Reads what a plugin printed."""
    try:
        found = msgspec.json.decode(output, type=_ExecCredential).status
        _moment(found.expiration_timestamp)
    except (ValueError, OverflowError, *DAMAGED) as error:
        raise NoAccess(f"the login plugin {plugin.command} printed no credential ({error})") from error
    if not found.token and not (found.client_certificate_data and found.client_key_data):
        raise NoAccess(f"the login plugin {plugin.command} gave neither a token nor a certificate")
    return found
