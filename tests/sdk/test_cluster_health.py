"""What a cluster lacks is told with the next step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bireme.backends.kubernetes import operators
from bireme.backends.kubernetes.cluster_checks import ClusterFacts, TaintFact, with_nodes
from bireme.backends.kubernetes.objects.api_types import Meta, NodeObject
from bireme.backends.kubernetes.operators import Lease, LeaseSpec, Operator
from bireme.backends.kubernetes.submit.job_client import Served
from bireme.cli.render import render_cluster
from bireme.sdk.cluster import cluster_health
from bireme.sdk.cluster.cluster_health import ClusterView

FINE = ClusterFacts(
    server="https://x",
    context="dev",
    namespace="team",
    kubernetes="v1.35.8",
    kinds={"PyTorchJob": ("kubeflow.org/v1",)},
    definitions="bireme",
    operator="pod-1",
    nodes=2,
    ready_nodes=2,
    cpu=4000,
    memory=2**30,
    storage_classes=("nfs",),
    default_class="nfs",
    shared_classes=("nfs",),
    dns=True,
)


def _node(name: str = "n", *, ready: bool = True, **more: Any) -> NodeObject:
    body = {
        "metadata": {"name": name, "labels": more.pop("labels", {})},
        "spec": {"taints": more.pop("taints", [])},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {"cpu": "1500m", "memory": "1Gi", **more.pop("devices", {})},
        },
    }
    return msgspec.convert(body, NodeObject)


def test_a_cluster_with_everything_has_no_problem() -> None:
    assert list(cluster_health.problems(FINE)) == []
    shown = render_cluster.shown(ClusterView(bireme="1", cluster=FINE))
    assert "nodes       2 of 2 ready: 4 cpu, 1 GiB" in shown
    assert "storage     nfs (default)" in shown


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"definitions": "", "kinds": {}}, "knows none of the job kinds"),
        ({"definitions": "kubeflow"}, "Kubeflow's own"),
        ({"operator": ""}, "no operator of Bireme holds its lease"),
        ({"unserved": ("TFJob", "MPIJob")}, "does not serve TFJob, MPIJob"),
        ({"rivals": ("pod-1", "laptop")}, "2 operators act on namespace team at once: pod-1, laptop"),
        ({"watched": False}, "does not watch namespace team"),
        ({"operator": None}, "you may not read its lease"),
        ({"ready_nodes": 0}, "none of 2 nodes is ready"),
        ({"ready_nodes": 1}, "1 of 2 nodes are not ready"),
        ({"idle_gpu_nodes": ("n1",)}, "node n1 says that it has a GPU"),
        ({"taints": (TaintFact("team=ml:NoSchedule", 1),)}, "tolerate team=ml:NoSchedule"),
        ({"storage_classes": (), "default_class": ""}, "there is no storage class"),
        ({"default_class": ""}, "no storage class is the default"),
        ({"shared_classes": ()}, "ReadWriteMany"),
        ({"dns": False}, "DNS has no endpoint"),
    ],
)
def test_each_lack_is_one_problem(change: dict[str, Any], said: str) -> None:
    (problem,) = cluster_health.problems(msgspec.structs.replace(FINE, **change))

    assert said in problem.what
    assert problem.next


def test_what_may_not_be_read_is_no_problem_but_is_said() -> None:
    blind = msgspec.structs.replace(FINE, nodes=None, storage_classes=None, dns=None)

    assert list(cluster_health.problems(blind)) == []
    shown = render_cluster.shown(ClusterView(bireme="1", cluster=blind))
    unseen = [line.partition(" ")[0] for line in shown if "you may not look" in line]
    assert unseen == ["nodes", "devices", "storage", "DNS"]


def test_nodes_are_added_up() -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    nodes = [
        _node("a", devices={"nvidia.com/gpu": "2"}, taints=[taint]),
        _node("b", labels={"nvidia.com/gpu.present": "true"}, taints=[{"key": "ml", "effect": "NoExecute"}]),
        _node("c", ready=False, devices={"nvidia.com/gpu": "8"}),
    ]

    found = with_nodes(FINE, nodes)

    assert (found.nodes, found.ready_nodes, found.cpu, found.memory) == (3, 2, 3000, 2**31)
    assert (found.devices, found.idle_gpu_nodes) == ({"nvidia.com/gpu": 2}, ("b",))
    assert found.taints == (TaintFact("ml:NoExecute", 1),)


def test_our_definitions_are_known_by_the_versions_of_mpijob() -> None:
    ours = Served({"MPIJob": ("kubeflow.org/v1", "kubeflow.org/v2beta1", "kubeflow.org/v1alpha2")})

    assert ours.is_ours
    assert not Served({"MPIJob": ("kubeflow.org/v1",), "PyTorchJob": ("kubeflow.org/v1",)}).is_ours
    assert Served({"MPIJob": ("kubeflow.org/v2beta1",)}).version("MPIJob") == "kubeflow.org/v2beta1"


def test_a_lease_tells_of_a_living_operator_only_while_it_is_renewed() -> None:
    lease = Lease(spec=LeaseSpec("pod-1", "1970-01-01T00:01:00Z"))

    assert lease.is_fresh(70.0)
    assert not lease.is_fresh(100.0)
    assert not Lease(spec=LeaseSpec("", "1970-01-01T00:01:00Z")).is_fresh(70.0)


def lease(holder: str, renewed: str = "1970-01-01T00:01:00Z", namespaces: str = "", kinds: str = "") -> Lease:
    scope = {operators.NAMESPACES: namespaces, operators.KINDS: kinds}
    return Lease(Meta(annotations=scope), LeaseSpec(holder, renewed))


def test_operators_that_act_at_once_are_those_with_a_fresh_lease_that_watch_the_namespace() -> None:
    leases = [
        lease("pod-1"),
        lease("laptop", namespaces="team,other"),
        lease("elsewhere", namespaces="other"),
        lease("dead", renewed="1970-01-01T00:00:01Z"),
    ]

    assert operators.rivals(leases, "team", now=65.0) == ("pod-1", "laptop")


def test_operators_that_share_no_kind_are_no_rivals() -> None:
    leases = [lease("one", kinds="TFJob,MPIJob"), lease("two", kinds="PyTorchJob")]

    assert operators.rivals(leases, "team", now=65.0) == ()
    assert operators.rivals([*leases, lease("all")], "team", now=65.0) == ("one", "two", "all")


def test_an_operator_for_all_namespaces_shares_jobs_with_one_for_a_single_one() -> None:
    leases = [lease("laptop", namespaces="team"), lease("other", kinds="MPIJob")]

    assert operators.acting(leases, kinds=("TFJob",), namespaces=(), now=65.0) == ("laptop",)
    assert operators.acting(leases, kinds=(), namespaces=("ml",), now=65.0) == ("other",)


def test_a_user_is_told_what_is_missing_in_one_line() -> None:
    assert operators.sentence(Operator.OURS, "TFJob", "ml") == ""
    assert "Kubeflow's own operator serves TFJob here" in operators.sentence(Operator.KUBEFLOW, "TFJob", "ml")
    assert "bireme install" in operators.sentence(Operator.ASLEEP, "TFJob", "ml")
