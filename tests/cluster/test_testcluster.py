"""Is the test cluster what it claims to be: real, shut off from the world, and gone without a trace?"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.testcluster import cgroups, clusters, images, states
from tools.testcluster.clusters import Wish
from tools.testcluster.layouts import Start
from tools.testcluster.places import ClusterError, Home
from tools.testcluster.processes import until

from tests.cluster.harness import OPEN_MPI, OPEN_MPI_SSH, PYTHON, Cluster, Json, Kubectl, frameworks

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def another(wish: Wish) -> Iterator[Home]:
    """Bring up a cluster for one test."""
    home = Home(f"another-{os.getpid()}")
    clusters.up(home.name, wish, tell=lambda line: None)
    try:
        yield home
    finally:
        clusters.down(home.name)


def pod(name: str, *command: str, image: str = PYTHON, **spec: Json) -> Json:
    """Write a pod of one container that runs once."""
    container = {"name": "main", "image": image, "command": list(command), **spec.pop("container", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def python(name: str, code: str, **spec: Json) -> Json:
    return pod(name, "python3", "-c", code, **spec)


def ended(kubectl: Kubectl, name: str, phase: str = "Succeeded") -> str:
    """Wait for a pod's end and return its log."""
    kubectl.wait(f"--for=jsonpath={{.status.phase}}={phase}", f"pod/{name}")
    return kubectl.logs(name)


def traces(home: Home) -> dict[str, object]:
    """Return what a cluster could leave on the machine."""
    running = [
        file.parent.name
        for file in Path("/proc").glob("[0-9]*/cmdline")
        if str(home.folder).encode() in _content(file) and file.parent.name != str(os.getpid())
    ]
    return {
        "processes": running,
        "mounts": sorted(line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()),
        "groups": [str(path) for path in cgroups.left() if f".{home.name}." in path.name],
        "links": sorted(os.listdir("/sys/class/net")),
        "routes": _told("ip", "route"),
        "rules": _told("nft", "list", "ruleset"),
        "folder": home.folder.exists(),
    }


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _told(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


# Of both sizes.


def test_up_a_second_time_changes_nothing() -> None:
    with another(Wish(nodes=0, controller_manager=False)) as home:
        before = home.state.read_text()

        assert clusters.up(home.name, Wish(nodes=0)) is False
        assert home.state.read_text() == before


def test_a_control_plane_that_lost_a_process_is_started_anew() -> None:
    with another(Wish(nodes=0, controller_manager=False)) as home:
        state = states.load(home)
        assert state is not None
        os.kill(state.processes["etcd"].pid, 9)
        assert until(lambda: state.dead == ["etcd"], 10.0)

        assert clusters.up(home.name, Wish(nodes=0), tell=lambda line: None) is True
        assert Kubectl(home.kubeconfig)("get", "namespace", "default")


def test_another_size_under_the_same_name_is_refused() -> None:
    with (
        another(Wish(nodes=0, controller_manager=False)) as home,
        pytest.raises(ClusterError, match="runs with a control plane only"),
    ):
        clusters.up(home.name, Wish(nodes=2))


def test_a_control_plane_leaves_nothing() -> None:
    home = Home(f"another-{os.getpid()}")
    before = traces(home)

    with another(Wish(nodes=0)):
        assert traces(home) != before

    assert traces(home) == before


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "a" * 40])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="is no cluster name"):
        Home(name)


def test_the_command_says_what_is_not_there() -> None:
    words = [sys.executable, "-m", "tools.testcluster", "kubeconfig", "--name", "nowhere"]

    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 1
    assert "there is no cluster nowhere: python -m tools.testcluster up --name nowhere" in done.stderr


# With nodes.


def test_pods_meet_by_name_across_nodes_and_through_a_service(kubectl: Kubectl) -> None:
    serve = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=2222)"
    ask = """
import socket, time, urllib.request
def get(host):
    for _ in range(100):
        try: return urllib.request.urlopen(f"http://{host}/etc/hostname", timeout=5).read().decode().strip()
        except OSError: time.sleep(0.1)
print(get("server.peers:2222"), get("web"))
"""
    peers = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "server"}}
    web = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 2222}]}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}, "spec": peers},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": web},
        python("server", serve, nodeName="node1", hostname="server", subdomain="peers"),
        python("near", ask, nodeName="node1"),
        python("far", ask, nodeName="node2"),
    )

    assert ended(kubectl, "near") == "server server\n"
    assert ended(kubectl, "far") == "server server\n"


def test_no_packet_leaves_the_machine(kubectl: Kubectl) -> None:
    ask = """
import socket
try: socket.create_connection(("192.0.2.1", 53), timeout=5)
except OSError as error: print(error.strerror)
try: socket.gethostbyname("example.com")
except OSError as error: print(error.strerror)
"""
    kubectl.apply(python("prisoner", ask), python("guard", ask, hostNetwork=True))

    assert ended(kubectl, "prisoner") == "Network is unreachable\nName or service not known\n"
    assert ended(kubectl, "guard").startswith("Network is unreachable\n")


def test_pods_may_ask_for_more_processors_than_the_machine_has(kubectl: Kubectl) -> None:
    wanted = {"resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "4", "memory": "64Mi"}}}
    hungry = {"resources": {"limits": {"memory": "32Mi"}}}
    kubectl.apply(
        python("one", "print('done')", container=wanted, nodeName="node1"),
        python("two", "print('done')", container=wanted, nodeName="node1"),
        python("hungry", "b'x' * 200_000_000", container=hungry),
    )

    assert ended(kubectl, "one") == ended(kubectl, "two") == "done\n"
    ended(kubectl, "hungry", "Failed")
    [status] = kubectl.object("pod/hungry")["status"]["containerStatuses"]
    assert status["state"]["terminated"]["reason"] == "OOMKilled"


def test_logs_exec_and_port_forward_work_through_the_forwarder(kubectl: Kubectl) -> None:
    kubectl.apply(python("talker", "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.3)"))
    kubectl.apply(python("server", "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=80)"))
    kubectl.wait("--for=condition=Ready", "pod/server")

    assert kubectl("exec", "server", "--", "hostname") == "server\n"
    assert ended(kubectl, "talker") == kubectl("logs", "-f", "talker") == "0\n1\n2\n"
    with subprocess.Popen(
        kubectl.command("port-forward", "pod/server", ":80"), stdout=subprocess.PIPE, text=True
    ) as one:
        assert one.stdout is not None
        port = one.stdout.readline().split(" -> ")[0].rpartition(":")[2]
        answer = _told(
            sys.executable,
            "-c",
            f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/').status)",
        )
        one.terminate()
    assert answer == "200\n"


def test_gpus_are_advertised_and_given_out(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.advertise("node1", "nvidia.com/gpu", 2)
    kubectl.apply(
        python("fits", "print('done')", container={"resources": {"limits": {"nvidia.com/gpu": "2"}}}),
        python("waits", "print('done')", container={"resources": {"limits": {"nvidia.com/gpu": "3"}}}),
    )

    assert ended(kubectl, "fits") == "done\n"
    assert kubectl.object("pod/fits")["spec"]["nodeName"] == "node1"
    kubectl.wait("--for=condition=PodScheduled=False", "pod/waits")


@pytest.mark.frameworks
def test_frameworks_reach_pods_by_a_folder_of_the_machine(kubectl: Kubectl) -> None:
    volume, mount, variable = frameworks()
    kubectl.apply(
        python(
            "trainer",
            "import torch; print(int(torch.ones(3).sum()))",
            container={"volumeMounts": [mount], "env": [variable]},
            volumes=[volume],
        )
    )

    assert ended(kubectl, "trainer") == "3\n"


def test_the_images_of_open_mpi(kubectl: Kubectl) -> None:
    sum_up = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(1))"
    mpirun = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "python3", "-c", sum_up)
    agent = {"env": [{"name": "OMPI_MCA_plm_rsh_agent", "value": "/bin/true"}]}
    keys = "cd ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f id_ed25519 && cp id_ed25519.pub authorized_keys"
    kubectl.apply(
        pod("mpi", *mpirun, image=OPEN_MPI, container=agent),
        pod("plain", "sh", "-c", "which ssh sshd || echo none", image=OPEN_MPI),
        pod("sshd", "/usr/sbin/sshd", "-De", image=OPEN_MPI_SSH),
    )

    assert ended(kubectl, "mpi") == "2\n2\n"
    assert ended(kubectl, "plain") == "none\n"
    kubectl.wait("--for=condition=Ready", "pod/sshd")
    assert (
        kubectl("exec", "sshd", "--", "sh", "-c", f"mkdir -p ~/.ssh && {keys} && ssh sshd hostname")
        == "sshd\n"
    )


def test_an_image_is_made_without_docker_and_loaded(
    cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "hello.py").write_text("import os; print('hello from', os.getuid())")
    start = Start(entrypoint=("python3", "/opt/app/hello.py"), user="65532")
    archive = images.make(
        tmp_path / "hello.tar", "bireme.test/hello:1", {"/opt/app": tmp_path / "app"}, start
    )

    cluster.load(archive)
    hello = pod("hello", image="bireme.test/hello:1")
    kubectl.apply(hello)

    assert ended(kubectl, "hello") == "hello from 65532\n"


@pytest.mark.slow
def test_a_node_loses_its_power_and_comes_back(breakable: Cluster) -> None:
    with breakable.namespace() as kubectl:
        kubectl.apply(python("lost", "import time; time.sleep(1000)", nodeName="node2"))
        kubectl.wait("--for=condition=Ready", "pod/lost")

        breakable.kill_node("node2")
        kubectl.wait("--for=condition=Ready=Unknown", "node/node2")
        kubectl.wait("--for=condition=DisruptionTarget", "pod/lost")
        # It stays like this for as long as the node is away.
        told = kubectl.object("pod/lost")
        assert told["metadata"]["deletionTimestamp"]
        assert told["status"]["phase"] == "Running"

        breakable.start_node("node2")
        kubectl.wait("--for=delete", "pod/lost")
        kubectl.apply(python("next", "print('done')", nodeName="node2"))
        assert ended(kubectl, "next") == "done\n"


@pytest.mark.slow
def test_two_clusters_run_side_by_side_and_one_leaves_without_a_trace(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    home = Home(f"another-{os.getpid()}")
    before = traces(home)
    code = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"

    with another(Wish(nodes=1)):
        with Cluster(home.kubeconfig, name=home.name).namespace() as beside:
            for one in (kubectl, beside):
                one.apply(python("same", code))
            assert ended(kubectl, "same") == ended(beside, "same") == "10.96.0.1\n"
        meanwhile = traces(home)

    for unchanged in ("mounts", "links", "routes", "rules"):
        assert meanwhile[unchanged] == before[unchanged]
    assert meanwhile["groups"]
    assert meanwhile["processes"]
    assert traces(home) == before
    assert set(cluster.nodes) == {"node1", "node2"}
