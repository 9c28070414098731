"""Pods of an MPIJob: how launcher and workers of each version are prepared to reach each other."""

from __future__ import annotations

import pytest

from bireme.backends.kubernetes.objects.pod_builder import Extras
from tests.unit.kubernetes.making import V1, V1ALPHA2, V2BETA1, Object, container, mpi, template, variables

AGENT = {"bireme.io/mpi-agent": "exec"}
OLD = [V1, V1ALPHA2]


def volume(pod: Object, name: str) -> Object | None:
    return next((one for one in pod["spec"].get("volumes", []) if one["name"] == name), None)


def mounts(of: Object) -> dict[str, str]:
    return {one["name"]: one["mountPath"] for one in of.get("volumeMounts", [])}


def files(source: Object) -> dict[str, str]:
    return {one["path"]: oct(one["mode"]) for one in source["items"]}


# The agent.


@pytest.mark.parametrize("version", OLD)
def test_the_launcher_finds_the_agent_and_its_files(version: str) -> None:
    job = mpi(version)
    config = volume(job.pod("launcher"), "mpi-job-config")

    assert config is not None
    assert config["configMap"]["name"] == "mnist-config"
    assert files(config["configMap"]) == {
        "kubexec.sh": "0o555",
        "kubexec.py": "0o444",
        "execsocket.py": "0o444",
        "hostfile": "0o444",
        "discover_hosts.sh": "0o555",
    }
    assert mounts(job.container("launcher")) == {"mpi-job-config": "/etc/mpi"}


@pytest.mark.parametrize("version", OLD)
def test_workers_have_the_agent_alone(version: str) -> None:
    job = mpi(version)
    config = volume(job.pod("worker", 1), "mpi-job-config")

    assert config is not None
    assert files(config["configMap"]) == {"kubexec.sh": "0o555"}
    assert mounts(job.container("worker")) == {"mpi-job-config": "/etc/mpi"}


@pytest.mark.parametrize("version", OLD)
def test_the_launcher_acts_as_a_service_account_of_its_job(version: str) -> None:
    named = template(serviceAccountName="trainer")

    assert mpi(version).pod("launcher")["spec"]["serviceAccountName"] == "mnist-launcher"
    assert mpi(version, launcher=named).pod("launcher")["spec"]["serviceAccountName"] == "trainer"
    assert "serviceAccountName" not in mpi(version).pod("worker")["spec"]


def test_no_init_container_is_added() -> None:
    assert "initContainers" not in mpi(V1).pod("launcher")["spec"]


def test_v1_prepares_for_intel_unless_the_user_did() -> None:
    own = template(container(env=[{"name": "I_MPI_HYDRA_BOOTSTRAP", "value": "ssh"}]))

    lines = variables(mpi(V1, launcher=own).container("launcher"))

    assert "I_MPI_HYDRA_BOOTSTRAP=ssh" in lines
    assert "I_MPI_HYDRA_BOOTSTRAP=rsh" not in lines
    assert "I_MPI_HYDRA_BOOTSTRAP_EXEC=/etc/mpi/kubexec.sh" in lines
    assert "NVIDIA_VISIBLE_DEVICES=" in lines


# Workers that wait.


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("written", [{}, {"command": [""]}, {"command": []}, {"args": ["ignored"]}])
def test_a_worker_without_a_command_sleeps(version: str, written: Object) -> None:
    job = mpi(version, worker=template(container(**written)))

    assert job.container("worker")["command"] == ["sleep"]
    assert job.container("worker")["args"] == ["365d"]


@pytest.mark.parametrize("version", OLD)
def test_a_worker_with_a_command_runs_it(version: str) -> None:
    job = mpi(version, worker=template(container(command=["/usr/sbin/sshd", "-D"])))

    assert job.container("worker")["command"] == ["/usr/sbin/sshd", "-D"]
    assert "args" not in job.container("worker")


def test_a_sleeper_is_not_waited_for_unless_somebody_said_how_long() -> None:
    with_sidecar = template(container(), container("sidecar"))

    assert mpi(V1).pod("worker")["spec"]["terminationGracePeriodSeconds"] == 1
    chosen = mpi(V1, worker=template(terminationGracePeriodSeconds=60)).pod("worker")["spec"]
    assert chosen["terminationGracePeriodSeconds"] == 60
    assert "terminationGracePeriodSeconds" not in mpi(V1, worker=with_sidecar).pod("worker")["spec"]
    assert "terminationGracePeriodSeconds" not in mpi(V1).pod("launcher")["spec"]


def test_the_container_that_the_job_names_is_prepared() -> None:
    worker = template(container("sidecar", command=["serve"]), container("ranks"))
    pod = mpi(V1, worker=worker, mainContainer="ranks").pod("worker")

    sidecar, ranks = pod["spec"]["containers"]

    assert mounts(sidecar) == {}
    assert ranks["command"] == ["sleep"]
    assert mounts(ranks) == {"mpi-job-config": "/etc/mpi"}


def test_workers_of_v1alpha2_are_restarted_for_ever() -> None:
    assert mpi(V1ALPHA2).pod("worker")["spec"]["restartPolicy"] == "Always"


# ssh.


def test_v2beta1_mounts_keys_into_launcher_and_workers() -> None:
    job = mpi(V2BETA1)

    for role in ("launcher", "worker"):
        keys = volume(job.pod(role), "ssh-auth")
        assert keys is not None
        assert keys["secret"] == {
            "secretName": "mnist-ssh",
            "defaultMode": 0o600,
            "items": [
                {"key": "ssh-privatekey", "path": "id_rsa"},
                {"key": "ssh-publickey", "path": "id_rsa.pub"},
                {"key": "ssh-publickey", "path": "authorized_keys"},
            ],
        }
        assert mounts(job.container(role))["ssh-auth"] == "/root/.ssh"


def test_elsewhere_the_keys_have_the_usual_mode() -> None:
    job = mpi(V2BETA1, sshAuthMountPath="/home/mpiuser/.ssh")

    keys = volume(job.pod("worker"), "ssh-auth")

    assert keys is not None
    assert "defaultMode" not in keys["secret"]
    assert mounts(job.container("worker"))["ssh-auth"] == "/home/mpiuser/.ssh"


def test_only_the_launcher_of_v2beta1_has_the_files() -> None:
    launcher, worker = mpi(V2BETA1).pod("launcher"), mpi(V2BETA1).pod("worker")
    config = volume(launcher, "mpi-job-config")

    assert config is not None
    assert files(config["configMap"]) == {"hostfile": "0o444", "discover_hosts.sh": "0o555"}
    assert volume(worker, "mpi-job-config") is None
    assert "serviceAccountName" not in launcher["spec"]


@pytest.mark.parametrize(("domain", "search"), [("", "cluster.local"), ("corp.example", "corp.example")])
def test_pods_of_v2beta1_have_names_of_their_own(domain: str, search: str) -> None:
    own = template(dnsConfig={"searches": ["example.org"], "options": [{"name": "ndots", "value": "2"}]})

    spec = mpi(V2BETA1, worker=own).pod("worker", 1, extras=Extras(domain=domain))["spec"]

    assert (spec["hostname"], spec["subdomain"]) == ("mnist-worker-1", "mnist")
    assert spec["dnsConfig"] == {
        "searches": ["example.org", f"mnist.ml.svc.{search}"],
        "options": [{"name": "ndots", "value": "2"}],
    }


def test_the_older_versions_have_no_names() -> None:
    assert not {"hostname", "subdomain", "dnsConfig"} & mpi(V1).pod("worker")["spec"].keys()


@pytest.mark.parametrize(
    ("written", "command", "args"),
    [
        ({}, ["/usr/sbin/sshd", "-De"], None),
        ({"command": [""]}, ["/usr/sbin/sshd", "-De"], None),
        ({"args": ["-p", "2222"]}, None, ["-p", "2222"]),
        ({"command": ["mysshd"]}, ["mysshd"], None),
    ],
)
def test_a_worker_of_v2beta1_serves_ssh_unless_told_otherwise(
    written: Object, command: list[str] | None, args: list[str] | None
) -> None:
    made_of = mpi(V2BETA1, worker=template(container(**written))).container("worker")

    assert made_of.get("command") == command
    assert made_of.get("args") == args


def test_v2beta1_on_the_node_s_network_asks_the_cluster_s_dns() -> None:
    own = template(hostNetwork=True, dnsPolicy="Default")

    assert mpi(V2BETA1, worker=own).pod("worker")["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_v2beta1_takes_the_gang_scheduler_whatever_the_template_says() -> None:
    own = template(schedulerName="mine")
    extras = Extras(gang_scheduler="volcano")

    assert mpi(V2BETA1, worker=own).pod("worker", extras=extras)["spec"]["schedulerName"] == "volcano"


# Images without ssh.


@pytest.mark.parametrize("written", [{}, {"command": ["/usr/sbin/sshd", "-De"]}])
def test_an_annotation_chooses_the_agent_for_v2beta1_too(written: Object) -> None:
    job = mpi(V2BETA1, worker=template(container(**written)), annotations=AGENT)
    launcher, worker = job.pod("launcher"), job.pod("worker")
    config = volume(launcher, "mpi-job-config")

    assert config is not None
    assert "kubexec.sh" in files(config["configMap"])
    assert volume(launcher, "ssh-auth") is None
    assert volume(worker, "ssh-auth") is None
    assert mounts(worker["spec"]["containers"][0]) == {"mpi-job-config": "/etc/mpi"}
    assert launcher["spec"]["serviceAccountName"] == "mnist-launcher"
    assert worker["spec"]["containers"][0]["command"] == ["sleep"]
    assert worker["spec"]["hostname"] == "mnist-worker-0"
    assert "OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh" in variables(job.container("launcher"))
