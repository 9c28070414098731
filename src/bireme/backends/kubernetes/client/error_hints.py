"""Explains an error of the API server to the user, with the next step."""

from __future__ import annotations

import re

from bireme.backends.kubernetes.client.api_errors import UNREADABLE, UNTRUSTED, ApiError
from bireme.backends.kubernetes.client.paths import Target, target
from bireme.errors import BadInput, BadManifest, BiremeError, NoAccess, NoRoom, OurBug, Unreachable

VERBS = {"GET": "read", "POST": "create", "PUT": "replace", "PATCH": "change", "DELETE": "delete"}
OUR_GROUPS = frozenset({"kubeflow.org"})


def explained(error: Exception) -> BiremeError:
    """Returns the error that a user can act on; one of ours is returned as it is."""
    if isinstance(error, BiremeError):
        return error
    if not isinstance(error, ApiError):
        return OurBug(f"{type(error).__name__}: {error}")
    about = target(error.source.path)
    made = _explained(error, about)
    made.__cause__ = error
    return made


def _explained(error: ApiError, about: Target) -> BiremeError:
    match error.status:
        case 0 if error.reason == UNTRUSTED:
            return Unreachable(
                f"{_server(error)} and we do not trust each other's certificates: {error.message}",
                hint="correct certificate-authority, tls-server-name or the client certificate "
                "in the kubeconfig",
            )
        case 0 if error.reason == UNREADABLE:
            return Unreachable(
                f"{_server(error)} does not answer as an API server does: {error.message}",
                hint="check `server` and `proxy-url` in the kubeconfig",
            )
        case 0:
            hint = f"is the cluster up? look with: kubectl version{_context(error)}"
            return Unreachable(f"{_server(error)} does not answer: {error.message}", hint=hint)
        case 401:
            user = f"user {error.source.user}" if error.source.user else "this user"
            return NoAccess(
                f"{_server(error)} does not accept the credentials of {user}",
                hint=f"log in again, then look: kubectl auth whoami{_context(error)}",
            )
        case 403:
            return _forbidden(error, about)
        case 404:
            return _missing(error, about)
        case 400 | 422:
            return BadManifest(_complaints(error), where=about.shown)
        case 409 if error.name_is_taken:
            return BadInput(f"{about.shown}: {error.message}", hint="choose another name, or delete it first")
        case 409:
            creates = error.source.method == "POST"
            what = "cannot be created now" if creates else "was changed by someone else"
            return Unreachable(f"{about.shown} {what}: {error.message}", hint="try again")
        case _:
            what = f"{_server(error)} answers {error.status}: {error.message}"
            return Unreachable(what, hint="try again in a moment")


def _forbidden(error: ApiError, about: Target) -> BiremeError:
    if "exceeded quota" in error.message or "usage per" in error.message:
        return NoRoom(error.message, hint=f"kubectl describe quota,limits -n {about.namespace}")
    if "because it is being terminated" in error.message:
        return BadInput(
            f"namespace {about.namespace} is being deleted at {_server(error)}, and takes nothing new",
            hint="choose another with --namespace, or create it again when it is gone",
        )
    told = _CANNOT.search(error.message)
    if told is None:
        verb = VERBS.get(error.source.method, "use")
        return NoAccess(f"{_server(error)} refused to {verb} {about.kind}: {error.message}")
    who, verb, resource = told.groups()
    group = about.kind.partition(".")[2]
    kind = f"{resource}.{group}" if group and "/" not in resource else resource
    place = f" in namespace {about.namespace}" if about.namespace else " in all namespaces"
    option = f" -n {about.namespace}" if about.namespace else " -A"
    return NoAccess(
        f"user {who} may not {verb} {kind}{place} at {_server(error)}",
        hint=f"ask an administrator for it; to look again: kubectl auth can-i {verb} {kind}{option}",
    )


def _missing(error: ApiError, about: Target) -> BiremeError:
    if (name := error.details.get("name")) and error.details.get("kind") == "namespaces":
        hint = f"choose another with --namespace, or create it: kubectl create namespace {name}"
        return BadInput(f"there is no namespace {name} at {_server(error)}", hint=hint)
    if name:
        return BadInput(f"{error.message} at {_server(error)}", hint="is it in another namespace or context?")
    version = about.api_version.rpartition("/")[2]
    what = f"{about.kind}/{version}" if version else about.resource
    ours = about.api_version.rpartition("/")[0] in OUR_GROUPS
    return BadInput(
        f"{_server(error)} does not know {what}",
        hint="bireme install" if ours else f"kubectl api-resources{_context(error)}",
    )


def _complaints(error: ApiError) -> str:
    causes = error.details.get("causes")
    if not isinstance(causes, list) or not causes:
        return error.message
    told = [each for each in causes[:10] if isinstance(each, dict)]
    return "\n".join(f"{each.get('field', '')}: {each.get('message', '')}" for each in told)


def _server(error: ApiError) -> str:
    source = error.source
    return f"the API server {source.server} (context {source.context})" if source.server else "the API server"


def _context(error: ApiError) -> str:
    name = error.source.context
    return f" --context {name}" if name and name != "in-cluster" else ""


_CANNOT = re.compile(r'User "([^"]+)" cannot (\w+) resource "([^"]+)"')
