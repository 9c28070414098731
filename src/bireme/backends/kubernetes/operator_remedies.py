"""What to do about an operator that does not work: each trouble with its way out. Pure."""

from __future__ import annotations

from msgspec import Struct

from bireme import __version__
from bireme.backends.kubernetes import rollouts
from bireme.backends.kubernetes.observe.pod_diagnosis import NO_IMAGE, NOT_STARTED
from bireme.backends.kubernetes.operators import LEASE as NAME
from bireme.backends.kubernetes.operators import NAMESPACE
from bireme.backends.kubernetes.rollouts import Standing

_PERHAPS_NOT_PUSHED = ("ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable")
"""Where the image may be right and is not where it is looked for; else another one is needed."""


class Remedy(Struct, frozen=True):
    """What is wrong with the operator, and the lines that say what to do."""

    what: str
    steps: tuple[str, ...]


def remedy(standing: Standing) -> Remedy | None:
    """What keeps the operator from working, and the way out; None where nothing does. Pure."""
    if not standing.reason:
        return None
    subject = "the operator's new version" if standing.earlier_serves else "the operator"
    fact, _, advice = standing.message.partition("; ")
    kept = "; the earlier one continues" if standing.earlier_serves else ""
    again = _again(standing)
    if standing.reason in (*NO_IMAGE, *NOT_STARTED):
        return Remedy(f"{subject} does not start: {fact}{kept}", _image_steps(standing, advice))
    if standing.reason == "CrashLoopBackOff":
        where = f"-n {standing.namespace} deployment/{NAME}"
        last = _last_words(standing.said) or fact
        steps = (f"all that it says: kubectl logs {where}", f"to renew it: {again}")
        return Remedy(f"{subject} ends as soon as it starts: {last}{kept}", steps)
    if standing.reason == rollouts.SCALED_DOWN:
        step = f"kubectl -n {standing.namespace} scale deployment {NAME} --replicas 1"
        return Remedy(f"{subject} does not run: {fact}", (step,))
    if standing.reason == rollouts.NO_LEASE:
        step = f"stop that one, or see `kubectl describe -n {standing.namespace} lease {NAME}`"
        return Remedy(f"{subject} does not act: {fact}{kept}", (step,))
    if "has no ServiceAccount" in fact:
        return Remedy(f"{subject} does not start: {fact}{kept}", (f"to create it again: {again}",))
    if "quota" in fact:
        step = f"raise it: kubectl describe quota -n {standing.namespace}"
        return Remedy(f"{subject} does not start: {fact}{kept}", (step,))
    look = f"kubectl describe -n {standing.namespace} deployment,pods"
    return Remedy(f"{subject} does not start: {fact}{kept}", tuple(one for one in (advice, look) if one))


def _image_steps(standing: Standing, advice: str) -> tuple[str, ...]:
    if "imagePullSecret" in advice:
        account = f"serviceaccount {NAME}"
        secret = '{"imagePullSecrets": [{"name": "SECRET"}]}'
        restart = f"kubectl -n {standing.namespace} rollout restart deployment {NAME}"
        return (
            "let it pull with a secret of type kubernetes.io/dockerconfigjson in that namespace:",
            f"  kubectl -n {standing.namespace} patch {account} -p '{secret}'",
            f"  {restart}",
            f"or choose another image: {_again(standing, 'IMAGE')}",
        )
    named = standing.image if standing.reason in _PERHAPS_NOT_PUSHED else ""
    return building(named, standing.namespace)


def _again(standing: Standing, image: str = "") -> str:
    return command(image or standing.image, standing.namespace)


def _last_words(said: str) -> str:
    """The error that the operator printed last; its hints come after it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors_told = [line.removeprefix("bireme: ") for line in lines if line.startswith("bireme: ")]
    return (errors_told or lines or [""])[-1][:300]


def building(image: str = "", namespace: str = NAMESPACE) -> tuple[str, ...]:
    """The lines that say how an image of the operator is made, and put where nodes find it."""
    named = image or f"registry.example/{NAME}:{__version__}"
    return (
        "build it in a checkout of Bireme, and push it to a registry that the nodes can pull from:",
        f"  docker build -t {named} .",
        f"  docker push {named}",
        f"  {command(named, namespace)}",
        f"a cluster of kind needs no registry: kind load docker-image {named}",
        "without an image: bireme install --crds-only, then bireme operator --no-leader-elect here",
    )


def command(image: str, namespace: str) -> str:
    """The command that installs the operator with an image."""
    where = "" if namespace == NAMESPACE else f" --namespace {namespace}"
    return f"bireme install --image {image}{where}"
