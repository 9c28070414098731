"""Reads kubeconfig files: which cluster, which user, which namespace.

Several files are merged as kubectl does it: the first that names a thing wins, and paths are relative to the
file that holds them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from bireme.errors import BadInput, NoAccess
from bireme.model.decode_errors import DAMAGED

MOST_BYTES = 16 << 20
MOST_LEVELS = 50
MOST_NODES = 200_000


class Cluster(Struct, frozen=True, rename="kebab"):
    """Where an API server is, and how it is recognised."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class Variable(Struct, frozen=True):
    """An environment variable for a plugin."""

    name: str
    value: str = ""


class Plugin(Struct, frozen=True, rename="camel"):
    """A program that logs in for us."""

    command: str
    api_version: str = "client.authentication.k8s.io/v1"
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class AuthProvider(Struct, frozen=True):
    """How logins were configured before there were plugins."""

    name: str = ""
    config: dict[str, str] = {}


class User(Struct, frozen=True, rename="kebab"):
    """As whom we speak; hides its secrets when printed."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    plugin: Plugin | None = field(default=None, name="exec")
    auth_provider: AuthProvider | None = None
    impersonated: str = field(default="", name="as")
    impersonated_uid: str = field(default="", name="as-uid")
    impersonated_groups: tuple[str, ...] = field(default=(), name="as-groups")

    def __repr__(self) -> str:
        return "User(...)"


class ChosenContext(Struct, frozen=True):
    """What a context stands for."""

    context: str
    namespace: str
    cluster: Cluster
    user: User
    user_name: str = ""


class Context(Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class Merged(Struct, frozen=True):
    """The files together."""

    files: tuple[Path, ...] = ()
    current: str = ""
    contexts: dict[str, Context] = {}
    clusters: dict[str, Cluster] = {}
    users: dict[str, User] = {}


def read(files: Sequence[Path]) -> Merged:
    """Reads and merges the files that exist."""
    present = tuple(each for each in files if each.is_file())
    parsed = [_parsed(each) for each in present]
    return Merged(
        present,
        next((each.current_context for each in parsed if each.current_context), ""),
        _first((entry.name, entry.context) for each in parsed for entry in each.contexts),
        _first((entry.name, entry.cluster) for each in parsed for entry in each.clusters),
        _first((entry.name, entry.user) for each in parsed for entry in each.users),
    )


def choose(merged: Merged, context: str = "") -> ChosenContext:
    """Looks up a context, the current one by default, with its cluster and user."""
    where = ", ".join(map(str, merged.files))
    name = context or merged.current
    if not name:
        known = ", ".join(sorted(merged.contexts)[:10])
        raise BadInput("no context is chosen", where=where, hint=f"choose one with --context: {known}")
    found = _named(merged.contexts, name, "context", where)
    cluster = _named(merged.clusters, found.cluster, "cluster", where)
    user = _named(merged.users, found.user, "user", where) if found.user else User()
    if not cluster.server:
        raise BadInput(f"cluster {found.cluster!r} has no server", where=where)
    if user.auth_provider is not None and not (user.token or user.auth_provider.config.get("id-token")):
        raise NoAccess(
            f"user {found.user!r} logs in by auth-provider {user.auth_provider.name!r}, which is out of use",
            where=where,
            hint="configure a plugin instead (`exec:`); the provider of the cluster says which",
        )
    if len(user.impersonated_groups) > 1:
        raise BadInput(f"user {found.user!r} has several `as-groups`; one is supported", where=where)
    return ChosenContext(name, found.namespace or "default", cluster, user, found.user)


class _NamedContext(Struct):
    name: str
    context: Context = Context()


class _NamedCluster(Struct):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(Struct):
    name: str
    user: User = User()


class _File(Struct, rename="kebab"):
    current_context: str = ""
    contexts: list[_NamedContext] = []
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []


def _parsed(file: Path) -> _File:
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
        tree = _tree(content)
        config = msgspec.convert({} if tree is None else tree, _File, strict=False)
    except OSError as error:
        raise NoAccess(f"the kubeconfig cannot be read: {error.strerror}", where=str(file)) from error
    except (yaml.YAMLError, ValueError, *DAMAGED) as error:
        # ValueError: a file that is too large, dates that are none, escapes that are no character.
        raise BadInput(f"this is not a kubeconfig: {error}", where=str(file)) from error
    folder = file.absolute().parent
    for named in config.clusters:
        cluster = named.cluster
        authority = _absolute(folder, cluster.certificate_authority)
        server = cluster.server.rstrip("/")
        named.cluster = replace(cluster, server=server, certificate_authority=authority)
    for entry in config.users:
        entry.user = _user_in(folder, entry.user)
    return config


def _tree(content: bytes) -> Any:  # YAML of any shape
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    # The composer in C recurses without a limit, and a file that is deep enough ends the process.
    level = 0
    for event in yaml.parse(content, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        if level > MOST_LEVELS:
            raise ValueError(f"more than {MOST_LEVELS} levels are not read")
    return _without_nulls(yaml.load(content, loader), iter(range(MOST_NODES)), MOST_LEVELS)


def _user_in(folder: Path, user: User) -> User:
    plugin = user.plugin
    if plugin is not None and "/" in plugin.command:
        plugin = replace(plugin, command=_absolute(folder, plugin.command))
    return replace(
        user,
        client_certificate=_absolute(folder, user.client_certificate),
        client_key=_absolute(folder, user.client_key),
        token_file=_absolute(folder, user.token_file),
        plugin=plugin,
    )


def _absolute(folder: Path, path: str) -> str:
    return str(folder / path) if path else ""


def _without_nulls(tree: Any, room: Iterator[int], levels: int) -> Any:
    """Drops keys without a value, which kubectl takes as absent.

    Aliases make a tree of few lines endless, so its nodes are counted, and its levels once more.
    """
    if next(room, None) is None or levels < 0:
        raise ValueError(f"its aliases stand for more than {MOST_NODES} values or {MOST_LEVELS} levels")
    if isinstance(tree, dict):
        return {
            str(key): _without_nulls(value, room, levels - 1)
            for key, value in tree.items()
            if value is not None
        }
    if isinstance(tree, list):
        return [_without_nulls(each, room, levels - 1) for each in tree]
    return tree


V = TypeVar("V")


def _first(pairs: Iterable[tuple[str, V]]) -> dict[str, V]:
    found: dict[str, V] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def _named(entries: Mapping[str, V], name: str, what: str, where: str) -> V:
    if name in entries:
        return entries[name]
    nearest = difflib.get_close_matches(name, entries, n=1)
    known = ", ".join(sorted(entries)[:10]) or "none"
    hint = f"did you mean {nearest[0]}?" if nearest else f"it knows: {known}"
    raise BadInput(f"there is no {what} {name!r} in the kubeconfig", where=where, hint=hint)
