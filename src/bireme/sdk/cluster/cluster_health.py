"""Finds what keeps jobs from running in a cluster, each with a next step."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

import bireme
from bireme.backends.kubernetes import cluster_checks, rollouts
from bireme.backends.kubernetes.cluster_checks import ClusterFacts
from bireme.sdk.cluster.cluster_backend import ClusterPlace
from bireme.sdk.views import VERSION, Problem


class ClusterView(Struct, frozen=True, kw_only=True):
    """The output of `bireme doctor --on kubernetes --json`."""

    version: int = VERSION
    bireme: str
    cluster: ClusterFacts
    problems: tuple[Problem, ...] = ()


def examine(place: ClusterPlace) -> ClusterView:
    """Looks at a cluster."""
    facts = place.session.ask(lambda api: cluster_checks.examine(api, place.namespace))
    return ClusterView(bireme=bireme.__version__, cluster=facts, problems=tuple(problems(facts)))


def problems(facts: ClusterFacts) -> Iterator[Problem]:
    """The problems of a cluster that a person should know about. Pure."""
    yield from _operator_problems(facts)
    if facts.nodes is not None and not facts.ready_nodes:
        yield Problem(f"none of {facts.nodes} nodes is ready", "kubectl get nodes")
    elif facts.nodes is not None and facts.ready_nodes < facts.nodes:
        missing = facts.nodes - facts.ready_nodes
        yield Problem(f"{missing} of {facts.nodes} nodes are not ready, or closed", "kubectl get nodes")
    for name in facts.idle_gpu_nodes:
        what = f"node {name} says that it has a GPU and offers none: its device plugin is missing or ill"
        yield Problem(what, "install the GPU operator or the device plugin of its vendor")
    for taint in facts.taints:
        what = f"{taint.nodes} of {facts.ready_nodes} ready nodes take only pods that tolerate {taint.taint}"
        key, _, effect = taint.taint.rpartition(":")
        name = key.partition("=")[0]
        toleration = f"{{key: {name}, effect: {effect}, operator: Exists}}"
        yield Problem(what, f"in a template that may use them: tolerations: [{toleration}]")
    yield from _storage_problems(facts)
    if facts.dns is False:
        what = "the cluster's DNS has no endpoint that is ready: replicas will not find each other"
        yield Problem(what, "kubectl -n kube-system get pods -l k8s-app=kube-dns")


def _operator_problems(facts: ClusterFacts) -> Iterator[Problem]:
    if not facts.definitions:
        yield Problem("the cluster knows none of the job kinds", "bireme install")
    elif facts.definitions == "kubeflow":
        what = (
            "the job kinds are Kubeflow's own: verbs work as a client of its operator, without gang restarts"
        )
        yield Problem(what, "to have Bireme's operator instead: bireme install says what to do")
    elif facts.operator is None:
        what = "whether Bireme's operator runs cannot be seen: you may not read its lease"
        yield Problem(what, "ask an administrator, or start a job: bireme show says if none picks it up")
    elif not facts.operator:
        what = "no operator of Bireme holds its lease: jobs wait for one"
        if (found := _remedy(facts)) is not None:
            yield Problem(f"{what}; {found.what}", found.next)
        elif facts.installed is not None:
            where = f"-n {facts.installed.namespace} deployment,pods"
            starting = f"{what}; it is starting with image {facts.installed.image}"
            yield Problem(starting, f"kubectl get {where}")
        else:
            yield Problem(what, "bireme install")
    elif not facts.watched:
        what = f"Bireme's operator does not watch namespace {facts.namespace}: its jobs wait"
        yield Problem(what, f"start it without --namespace, or also with --namespace {facts.namespace}")
    elif facts.unserved:
        what = f"Bireme's operator does not serve {', '.join(facts.unserved)}: such jobs wait"
        yield Problem(what, "to serve every kind: bireme install; to choose: --kind for each that is wanted")
    if len(facts.rivals) > 1:
        what = f"{len(facts.rivals)} operators act on namespace {facts.namespace} at once: "
        step = "stop all but one; of those with --leader-elect one acts by itself"
        yield Problem(what + ", ".join(facts.rivals), step)
    # Another one may serve: that of the version before, or one that runs outside the cluster.
    if facts.operator and (found := _remedy(facts)) is not None:
        yield found


def _remedy(facts: ClusterFacts) -> Problem | None:
    """The problems that keep an installed operator from working."""
    found = rollouts.remedy(facts.installed) if facts.installed is not None else None
    return None if found is None else Problem(found.what, "\n".join(found.steps))


def _storage_problems(facts: ClusterFacts) -> Iterator[Problem]:
    if facts.storage_classes is None:
        return
    if not facts.storage_classes:
        what = "there is no storage class: volume claims stay unbound"
        yield Problem(what, "install one, or use volumes that exist already")
        return
    if not facts.default_class:
        what = "no storage class is the default: a claim must name one of " + ", ".join(facts.storage_classes)
        yield Problem(what, "name it in the claim: storageClassName")
    if not facts.shared_classes:
        what = "no storage class is known for volumes that many nodes may write to (ReadWriteMany)"
        yield Problem(what, "checkpoints that all ranks write need one: NFS, CephFS, EFS, Filestore")
