"""Waits until an installed operator works, and says what to do where it does not."""

from __future__ import annotations

import asyncio
import contextlib

from bireme import errors
from bireme.backends.kubernetes import rollouts
from bireme.backends.kubernetes.client.api import Api, ApiError, Expected
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.observe import pod_diagnosis
from bireme.backends.kubernetes.observe.pod_diagnosis import Trouble
from bireme.backends.kubernetes.rollouts import Deployment, Standing
from bireme.operator.install import operator_objects

STEADY = 4.0
"""Seconds for which a trouble must last: a first start may come too early."""
PULLS = 35.0
"""The same for a pull, so that the second one counts: it comes 10 to 25 s after the first."""
_LOOK_AGAIN = 0.5
_RETRIED = "bireme.io/retried-at-version"
_MAY_PASS = ("Unschedulable", "SchedulingGated", "NodeNotReady", rollouts.NO_LEASE)
"""Troubles that an autoscaler or a queue ends in its own time."""


async def until_it_works(api: Api, namespace: str, timeout: float) -> Standing:
    """How the operator fares once that is clear, or when the time is over."""
    clock = asyncio.get_running_loop().time
    where = path("apps/v1", "deployments", namespace, operator_objects.NAME)
    began = clock()
    troubled: float | None = None
    retried = False
    while True:
        deployment = await api.get(where, Deployment)
        standing = rollouts.judge(await rollouts.see(api, deployment))
        if standing.reason == rollouts.NOT_CREATED and not retried:
            # After some refusals the cluster waits for many minutes before it tries again, though what it was
            # refused for, a quota or a ServiceAccount, may have been mended since, perhaps by this very
            # installation. A small change of the Deployment makes it create the pod at once.
            change = {"metadata": {"annotations": {_RETRIED: deployment.metadata.resourceVersion}}}
            with contextlib.suppress(ApiError):  # It was changed meanwhile, so it is looked at anyway.
                await api.patch(where, change, meant=Expected(deployment.metadata.uid))
            retried = True
        now = clock()
        troubled = (now if troubled is None else troubled) if standing.is_stuck else None
        if is_clear(standing, 0.0 if troubled is None else now - troubled) or now - began >= timeout:
            return standing
        await asyncio.sleep(_LOOK_AGAIN)


def is_clear(standing: Standing, troubled_for: float) -> bool:
    """Whether waiting longer would not change how the operator fares. Pure."""
    if standing.works:
        return True
    if not standing.is_stuck or standing.reason in _MAY_PASS:
        return False
    if pod_diagnosis.may_yet_be_pulled(Trouble(standing.reason, standing.message)):
        return troubled_for >= PULLS
    return troubled_for >= (0.0 if standing.reason in pod_diagnosis.NO_IMAGE else STEADY)


def failure(standing: Standing, timeout: float) -> errors.BiremeError:
    """The error for an operator that does not work."""
    found = rollouts.remedy(standing)
    if found is None:
        what = f"after {timeout:.0f} s the operator with image {standing.image} is still starting"
        return errors.Unreachable(what, hint="how it fares: bireme doctor --on kubernetes")
    hint = "\n".join(found.steps)
    match standing.reason:
        case "Unschedulable" | rollouts.NOT_CREATED:
            return errors.NoRoom(found.what, hint=hint)
        case "CrashLoopBackOff" | "Error" | "OOMKilled":
            return errors.JobFailed(found.what, hint=hint)
    return errors.Unreachable(found.what, hint=hint)
