"""Finds other operators that serve the same kinds of jobs: two on one job would fight."""

from __future__ import annotations

from bireme import errors
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.operator.install import crds, operator_objects
from bireme.operator.install.operator_objects import Object

WEBHOOK = "validator.training-operator.kubeflow.org"
"""Asks the Training Operator about every job that is written, and refuses all of them once it is gone."""

OPERATORS = ("training-operator", "mpi-operator", "tf-job-operator", "tf-operator", "pytorch-operator")
"""What the Deployments of Kubeflow's operators are called, old ones included."""


async def refuse(api: Api, namespace: str) -> None:
    """Raises if another operator serves our kinds, or ours runs in another namespace already."""
    for name in OPERATORS:
        for deployment in await _deployments(api, name):
            match deployment:
                case {"spec": {"replicas": 0}}:
                    continue  # It is scaled down: it serves no job.
            where = _namespace(deployment)
            raise errors.BadInput(
                f"Kubeflow's {name} runs in namespace {where} and serves the same kinds of jobs",
                hint="Bireme's verbs work as its client as well. To replace it, stop it first:\n"
                f"  kubectl -n {where} scale deployment {name} --replicas 0",
            )
    try:
        await api.get(
            path("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", name=WEBHOOK)
        )
    except ApiError as error:
        if error.status != 404:
            raise
    else:
        raise errors.BadInput(
            f"the webhook {WEBHOOK} of Kubeflow's Training Operator, which does not run, refuses every job",
            hint=f"to remove it: kubectl delete validatingwebhookconfiguration {WEBHOOK}",
        )
    for deployment in await _deployments(api, operator_objects.NAME):
        if _namespace(deployment) != namespace:
            raise errors.BadInput(
                f"Bireme's operator is in namespace {_namespace(deployment)} already",
                hint=f"to renew it: bireme install --namespace {_namespace(deployment)}",
            )


def refuse_foreign(definitions: dict[str, Object]) -> None:
    """Raises if one of our kinds is defined, and not by Bireme."""
    foreign = [
        crds.definition_name(kind) for kind, definition in definitions.items() if not is_ours(definition)
    ]
    if foreign:
        raise errors.BadInput(
            f"{', '.join(foreign)} exist and are not managed by Bireme; no operator for them runs",
            hint="to take the definitions over, jobs included: bireme install --adopt",
        )


def is_ours(item: Object) -> bool:
    match item:
        case {"metadata": {"labels": {crds.PART_OF: str(whose)}}}:
            return whose == crds.OURS[crds.PART_OF]
    return False


async def _deployments(api: Api, name: str) -> list[Object]:
    found = await api.get(path("apps/v1", "deployments"), fieldSelector=f"metadata.name={name}")
    items: list[Object] = found.get("items", [])
    return items


def _namespace(item: Object) -> str:
    match item:
        case {"metadata": {"namespace": str(namespace)}}:
            return namespace
    return ""
