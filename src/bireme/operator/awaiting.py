"""Waits until an installed operator works, and says what to do where it does not."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from bireme import errors
from bireme.backends.kubernetes import rollouts
from bireme.backends.kubernetes.api import Api
from bireme.backends.kubernetes.paths import path
from bireme.backends.kubernetes.podtroubles import NO_IMAGE
from bireme.backends.kubernetes.rollouts import Deployment, Standing
from bireme.operator import installation

TIMEOUT = 120.0
"""Seconds for the operator to work after it was installed."""
STEADY = 4.0
"""Seconds for which a trouble must last: a first pull may fail, and a first start come too early."""
_LOOK_AGAIN = 0.5
_MAY_PASS = ("Unschedulable", "SchedulingGated", "NodeNotReady", rollouts.NO_LEASE)
"""Troubles that an autoscaler or a queue ends in its own time."""


class Remedy(Struct, frozen=True):
    """What is wrong with the operator, and the lines that say what to do."""

    what: str
    steps: tuple[str, ...]


async def until_it_works(api: Api, namespace: str, timeout: float) -> Standing:
    """How the operator fares once that is clear, or when the time is over."""
    clock = asyncio.get_running_loop().time
    where = path("apps/v1", "deployments", namespace, installation.NAME)
    began = clock()
    troubled: float | None = None
    while True:
        standing = rollouts.judge(await rollouts.see(api, await api.get(where, Deployment)))
        now = clock()
        troubled = (now if troubled is None else troubled) if standing.is_stuck else None
        if is_clear(standing, 0.0 if troubled is None else now - troubled) or now - began >= timeout:
            return standing
        await asyncio.sleep(_LOOK_AGAIN)


def is_clear(standing: Standing, troubled_for: float) -> bool:
    """Whether waiting longer would not change how the operator fares. Pure."""
    if standing.works:
        return True
    return standing.is_stuck and standing.reason not in _MAY_PASS and troubled_for >= STEADY


def failure(standing: Standing, timeout: float) -> errors.BiremeError:
    """The error for an operator that does not work."""
    found = remedy(standing)
    if found is None:
        what = f"after {timeout:.0f} s the operator with image {standing.image} is still starting"
        return errors.Unreachable(what, hint="how it fares: bireme doctor --on kubernetes")
    hint = "\n".join(found.steps)
    match standing.reason:
        case "Unschedulable" | "FailedCreate":
            return errors.NoRoom(found.what, hint=hint)
        case "CrashLoopBackOff" | "Error" | "OOMKilled":
            return errors.JobFailed(found.what, hint=hint)
    return errors.Unreachable(found.what, hint=hint)


def remedy(standing: Standing) -> Remedy | None:
    """What keeps the operator from working, and the way out; None where nothing does. Pure."""
    if not standing.reason:
        return None
    subject = "the operator's new version" if standing.earlier_serves else "the operator"
    fact, _, advice = standing.message.partition("; ")
    kept = "; the earlier one continues" if standing.earlier_serves else ""
    again = _again(standing)
    if standing.reason in NO_IMAGE:
        return Remedy(f"{subject} does not start: {fact}{kept}", _image_steps(standing, advice))
    if standing.reason == "CrashLoopBackOff":
        where = f"-n {standing.namespace} deployment/{installation.NAME}"
        last = _last_words(standing.said) or fact
        steps = (f"all that it says: kubectl logs {where}", f"then, with an image that works: {again}")
        return Remedy(f"{subject} ends as soon as it starts: {last}{kept}", steps)
    if standing.reason == rollouts.SCALED_DOWN:
        step = f"kubectl -n {standing.namespace} scale deployment {installation.NAME} --replicas 1"
        return Remedy(f"{subject} does not run: {fact}", (step,))
    if "has no ServiceAccount" in fact:
        return Remedy(f"{subject} does not start: {fact}{kept}", (f"to create it again: {again}",))
    if "quota" in fact:
        step = f"raise it: kubectl describe quota -n {standing.namespace}"
        return Remedy(f"{subject} does not start: {fact}{kept}", (step,))
    look = f"kubectl describe -n {standing.namespace} deployment,pods"
    return Remedy(f"{subject} does not start: {fact}{kept}", tuple(one for one in (advice, look) if one))


def _image_steps(standing: Standing, advice: str) -> tuple[str, ...]:
    if "imagePullSecret" in advice:
        account = f"serviceaccount {installation.NAME}"
        secret = '{"imagePullSecrets": [{"name": "SECRET"}]}'
        restart = f"kubectl -n {standing.namespace} rollout restart deployment {installation.NAME}"
        return (
            "let it pull with a secret of type kubernetes.io/dockerconfigjson in that namespace:",
            f"  kubectl -n {standing.namespace} patch {account} -p '{secret}'",
            f"  {restart}",
            f"or choose another image: {_again(standing, 'IMAGE')}",
        )
    return installation.building(standing.image, standing.namespace)


def _again(standing: Standing, image: str = "") -> str:
    return installation.command(image or standing.image, standing.namespace)


def _last_words(said: str) -> str:
    """The error that the operator printed last; its hints come after it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors_told = [line.removeprefix("bireme: ") for line in lines if line.startswith("bireme: ")]
    return (errors_told or lines or [""])[-1][:300]
