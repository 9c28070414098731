"""Pods: everything that was written stays, and what the contract adds is there."""

from __future__ import annotations

import copy

import pytest

from bireme.backends.kubernetes.objects.pod_builder import Extras
from bireme.runtime.script import rank_env
from tests.unit.kubernetes.making import (
    V1,
    V1ALPHA2,
    V2BETA1,
    Made,
    Object,
    container,
    made,
    mpi,
    template,
    variables,
)

GANG = {"bireme.io/restart": "gang"}
EVERY_KIND = [
    *(
        made(kind, {role: (1, template(container(), container("sidecar"))) for role in roles})
        for kind, roles in {
            "TFJob": ("Chief", "PS", "Worker"),
            "PyTorchJob": ("Master", "Worker"),
            "XGBoostJob": ("Master", "Worker"),
            "PaddleJob": ("Worker",),
            "JAXJob": ("Worker",),
        }.items()
    ),
    *(mpi(version) for version in (V1, V1ALPHA2, V2BETA1)),
]


def torch(raw: Object | None = None, workers: int = 2, **more: object) -> Made:
    roles = {"Master": (1, raw or template(container("pytorch"))), "Worker": (workers, raw or template())}
    return made("PyTorchJob", roles, **more)  # type: ignore[arg-type]


# What was written.


def test_fields_that_we_do_not_know_pass_through() -> None:
    raw = template(
        container(
            "pytorch", securityContext={"privileged": True}, livenessProbe={"exec": {"command": ["x"]}}
        ),
        affinity={"podAffinity": {}},
        topologySpreadConstraints=[{"maxSkew": 1}],
        someFutureField={"deep": [1, {"er": None}]},
    )

    spec = torch(raw).pod("worker")["spec"]

    assert spec["affinity"] == {"podAffinity": {}}
    assert spec["topologySpreadConstraints"] == [{"maxSkew": 1}]
    assert spec["someFutureField"] == {"deep": [1, {"er": None}]}
    assert spec["containers"][0]["securityContext"] == {"privileged": True}
    assert spec["containers"][0]["livenessProbe"] == {"exec": {"command": ["x"]}}


@pytest.mark.parametrize("kind", ["PyTorchJob", "MPIJob"])
def test_the_template_itself_is_left_as_it_is(kind: str) -> None:
    raw = template(
        container(env=[{"name": "A", "value": "1"}], ports=[], volumeMounts=[]),
        metadata={"labels": {"team": "x"}},
        volumes=[],
        tolerations=[],
    )
    before = copy.deepcopy(raw)
    first = "Launcher" if kind == "MPIJob" else "Master"
    job = made(kind, {first: (1, raw), "Worker": (1, raw)})

    for role in job.job.roles:
        job.pod(role.name, extras=Extras(gang_scheduler="volcano", host_aliases={"a": "10.0.0.1"}))

    assert raw == before


def test_labels_of_the_template_are_kept_and_ours_win() -> None:
    metadata = {
        "name": "ignored",
        "namespace": "elsewhere",
        "labels": {"team": "vision", "training.kubeflow.org/job-name": "another"},
        "annotations": {"sidecar.istio.io/inject": "false"},
        "finalizers": ["example.com/hold"],
        "creationTimestamp": None,
    }

    made_of = torch(template(container("pytorch"), metadata=metadata)).pod("worker", 1, attempt=3)["metadata"]

    assert made_of["name"] == "mnist-worker-1"
    assert made_of["namespace"] == "ml"
    assert made_of["labels"]["team"] == "vision"
    assert made_of["labels"]["training.kubeflow.org/job-name"] == "mnist"
    assert made_of["labels"]["bireme.io/attempt"] == "3"
    assert made_of["annotations"] == {"sidecar.istio.io/inject": "false"}
    assert made_of["finalizers"] == ["example.com/hold"]
    assert made_of["ownerReferences"][0]["uid"] == "job-uid"
    assert "creationTimestamp" not in made_of


def test_an_empty_command_counts_as_absent() -> None:
    raw = template(container("pytorch", command=[""]), initContainers=[container("prepare", command=[""])])

    spec = torch(raw).pod("worker")["spec"]

    assert "command" not in spec["containers"][0]
    assert "command" not in spec["initContainers"][0]


# What is added.


@pytest.mark.parametrize(
    ("written", "policy"),
    [("Always", "Always"), ("OnFailure", "OnFailure"), ("Never", "Never"), ("ExitCode", "Never")],
)
def test_the_replica_s_restart_policy_is_the_pod_s(written: str, policy: str) -> None:
    raw = template(container("pytorch"), restartPolicy="Always")

    assert torch(raw, restart=written).pod("worker")["spec"]["restartPolicy"] == policy


def test_pods_of_a_gang_are_never_restarted_in_place() -> None:
    gang = torch(restart="OnFailure", annotations=GANG)

    assert gang.pod("worker")["spec"]["restartPolicy"] == "Never"


def test_variables_of_the_kind_come_after_the_user_s() -> None:
    raw = template(
        container("pytorch", env=[{"name": "RANK", "value": "mine"}, {"name": "LR", "value": "1"}])
    )

    assert variables(torch(raw).container("worker", 1)) == [
        "RANK=mine",
        "LR=1",
        "PYTHONUNBUFFERED=1",
        "MASTER_PORT=23456",
        "PET_MASTER_PORT=23456",
        "MASTER_ADDR=mnist-master-0",
        "PET_MASTER_ADDR=mnist-master-0",
        "WORLD_SIZE=3",
        "RANK=2",
        "PET_NODE_RANK=2",
        "PET_NPROC_PER_NODE=auto",
        "PET_NNODES=3",
        "BIREME_RUN=job-uid/0",
        "BIREME_ATTEMPT=0",
    ]


@pytest.mark.parametrize("of", EVERY_KIND, ids=lambda of: f"{of.job.kind}-{of.job.api_version}")
def test_every_rank_knows_its_run_and_its_attempt(of: Made) -> None:
    for role in of.job.roles:
        main = next(
            one for one in of.pod(role.name, attempt=3)["spec"]["containers"] if one["name"] == role.main
        )

        found = rank_env.read_rank_env({one["name"]: one.get("value", "") for one in main["env"]})

        assert (found.run, found.attempt) == ("job-uid", 3)
        assert "BIREME_RUN=job-uid/3" in variables(main)


def test_a_run_that_the_template_names_stays() -> None:
    own = [{"name": "BIREME_RUN", "value": "mnist-1a2b/"}, {"name": "BIREME_ATTEMPT", "value": "7"}]
    raw = template(container("pytorch", env=own))

    lines = variables(torch(raw).container("worker", 1))

    assert [line for line in lines if line.startswith("BIREME")] == [
        "BIREME_RUN=mnist-1a2b/",
        "BIREME_ATTEMPT=7",
    ]


def test_variables_that_refer_to_the_pod_keep_their_reference() -> None:
    paddle = made("PaddleJob", {"Worker": (2, template(container("paddle")))})

    lines = variables(paddle.container("worker", 0))

    assert lines[-4:-2] == ["POD_IP_DUMMY<-status.podIP", "PADDLE_MASTER=$(POD_IP_DUMMY):36543"]


@pytest.mark.parametrize(
    ("kind", "roles", "port"),
    [
        ("TFJob", ("PS", "Worker"), {"name": "tfjob-port", "containerPort": 2222}),
        ("PyTorchJob", ("Master", "Worker"), {"name": "pytorchjob-port", "containerPort": 23456}),
        ("XGBoostJob", ("Master", "Worker"), {"name": "xgboostjob-port", "containerPort": 9999}),
        ("PaddleJob", ("Worker",), {"name": "master", "containerPort": 36543}),
        ("JAXJob", ("Worker",), {"name": "jaxjob-port", "containerPort": 6666}),
    ],
)
def test_the_main_container_has_the_kind_s_port(kind: str, roles: tuple[str, ...], port: Object) -> None:
    job = made(kind, {role: (1, template(container(), container("sidecar"))) for role in roles})

    main, sidecar = job.pod("worker")["spec"]["containers"]

    assert main["ports"] == [port]
    assert "ports" not in sidecar


def test_a_port_of_that_name_is_left_alone() -> None:
    ports = [{"name": "pytorchjob-port", "containerPort": 4000, "protocol": "TCP"}, {"containerPort": 80}]

    assert torch(template(container("pytorch", ports=ports))).container("worker")["ports"] == ports


def test_tensorflow_tells_the_main_container_alone_and_pytorch_tells_all() -> None:
    raw = template(container("tensorflow"), container("sidecar"))
    tensorflow = made("TFJob", {"Worker": (2, raw)}).pod("worker")["spec"]["containers"]
    raw = template(container("pytorch"), container("sidecar"), initContainers=[container("prepare")])
    pytorch = torch(raw).pod("worker")["spec"]

    assert ["env" in one for one in tensorflow] == [True, False]
    assert ["env" in one for one in pytorch["containers"]] == [True, True]
    assert "env" not in pytorch["initContainers"][0]


def test_of_several_containers_the_one_that_trains_is_named() -> None:
    plain = torch(template(container("pytorch"))).pod("worker")["metadata"]
    first = torch(template(container("pytorch"), container("sidecar"))).pod("worker")["metadata"]
    second = torch(template(container("sidecar"), container("pytorch"))).pod("worker")["metadata"]

    assert "annotations" not in plain
    assert first["annotations"] == {"kubectl.kubernetes.io/default-container": "pytorch"}
    assert second["annotations"] == {
        "bireme.io/main-container": "pytorch",
        "kubectl.kubernetes.io/default-container": "pytorch",
    }


def test_the_user_s_own_choice_of_a_default_container_stays() -> None:
    chosen = {"kubectl.kubernetes.io/default-container": "sidecar"}
    raw = template(container("pytorch"), container("sidecar"), metadata={"annotations": chosen})

    assert torch(raw).pod("worker")["metadata"]["annotations"] == chosen


def test_devices_are_tolerated() -> None:
    gpu = container("pytorch", resources={"limits": {"nvidia.com/gpu": 1}})
    given = [{"key": "team", "operator": "Exists"}]

    spec = torch(template(gpu, tolerations=given)).pod("worker")["spec"]

    assert spec["tolerations"] == [*given, {"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_a_pod_on_its_node_s_network_still_finds_its_peers() -> None:
    there = torch(template(container("pytorch"), hostNetwork=True)).pod("worker")["spec"]
    chosen = torch(template(container("pytorch"), hostNetwork=True, dnsPolicy="Default")).pod("worker")[
        "spec"
    ]

    assert there["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert chosen["dnsPolicy"] == "Default"


def test_addresses_of_peers_are_written_into_the_pod() -> None:
    extras = Extras(host_aliases={"mnist-master-0": "10.0.0.1", "other": "10.0.0.1", "third": "10.0.0.2"})
    own = [{"ip": "1.2.3.4", "hostnames": ["db"]}]

    spec = torch(template(container("pytorch"), hostAliases=own)).pod("worker", extras=extras)["spec"]

    assert spec["hostAliases"] == [
        *own,
        {"ip": "10.0.0.1", "hostnames": ["mnist-master-0", "other"]},
        {"ip": "10.0.0.2", "hostnames": ["third"]},
    ]


# Gang scheduling.


def test_volcano_finds_the_group_by_annotation() -> None:
    made_of = torch().pod("worker", extras=Extras(gang_scheduler="volcano"))

    assert made_of["spec"]["schedulerName"] == "volcano"
    assert made_of["metadata"]["annotations"] == {
        "scheduling.k8s.io/group-name": "mnist",
        "volcano.sh/task-spec": "worker",
    }


def test_the_scheduler_plugins_find_the_group_by_label() -> None:
    made_of = torch().pod("worker", extras=Extras(gang_scheduler="gangs"))

    assert made_of["spec"]["schedulerName"] == "gangs"
    assert made_of["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "mnist"


def test_another_scheduler_is_not_overwritten() -> None:
    raw = template(container("pytorch"), schedulerName="mine")

    assert (
        torch(raw).pod("worker", extras=Extras(gang_scheduler="volcano"))["spec"]["schedulerName"] == "mine"
    )
