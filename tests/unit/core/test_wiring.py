"""What exactly does a replica run, and what does it need before."""

from __future__ import annotations

import pytest

from bireme.core.replicas import wiring
from bireme.model.decisions import Demand, Start
from bireme.model.job import Job, ReplicaId, Restart, RestartScope
from bireme.model.pods import Container, EnvVar, FieldRef, Resources
from bireme.model.replicas import Address, Addresses
from tests.unit import build

PORT = {"pytorchjob-port": 23456}
HERE = Addresses(
    book={
        "mnist-master-0": Address("127.0.0.1", {"pytorchjob-port": 40000, "metrics": 40100}),
        "mnist-worker-0": Address("127.0.0.1", {"pytorchjob-port": 40001}),
        "mnist-worker-1": Address("127.0.0.1", {"pytorchjob-port": 40002}),
    }
)


def job(
    *args: str,
    env: tuple[EnvVar, ...] = (),
    others: tuple[Container, ...] = (),
    init: tuple[Container, ...] = (),
    restart: Restart = Restart.NEVER,
    unit: RestartScope = RestartScope.REPLICA,
) -> Job:
    """A master and two workers that run `train` with these arguments."""
    main = Container("main", command=("train", *args[:1]), args=args, env=env, ports=PORT)
    master = Container("main", command=("serve",), ports={**PORT, "metrics": 9100})
    return build.job(
        "PyTorchJob",
        build.role("Master", 1, master),
        build.role("Worker", 2, main, *others, init=init, restart=restart),
        unit=unit,
    )


def started(of: Job, role: str = "worker", index: int = 0, addresses: Addresses = HERE) -> Start:
    return wiring.start(of, build.member(of, role, index), 3, addresses)


def values(container: Container) -> dict[str, str]:
    return {one.name: one.value for one in container.env}


def test_a_start_says_who_is_started() -> None:
    start = started(job(), index=1)

    assert (start.replica, start.role, start.index, start.attempt) == ("mnist-worker-1", "worker", 1, 3)
    assert start.main == "main"


@pytest.mark.parametrize(
    ("restart", "in_place", "always"),
    [
        (Restart.ALWAYS, True, True),
        (Restart.ON_FAILURE, True, False),
        (Restart.NEVER, False, False),
        (Restart.EXIT_CODE, False, False),
        (Restart.RECREATE, False, False),
    ],
)
def test_which_policies_restart_in_place(restart: Restart, in_place: bool, always: bool) -> None:
    alone = started(job(restart=restart))
    in_gang = started(job(restart=restart, unit=RestartScope.GANG))

    assert (alone.restarts_in_place, alone.restarts_always) == (in_place, always)
    assert (in_gang.restarts_in_place, in_gang.restarts_always) == (False, False)


def test_the_kinds_environment_comes_after_the_users() -> None:
    start = started(job(env=(EnvVar("RANK", "user's"), EnvVar("MINE", "1"))))

    names = [one.name for one in start.pod.containers[0].env]
    assert names[:2] == ["RANK", "MINE"]
    assert names.count("RANK") == 2
    assert values(start.pod.containers[0])["RANK"] == "1"
    assert values(start.pod.containers[0])["MASTER_ADDR"] == "127.0.0.1"
    assert values(start.pod.containers[0])["MASTER_PORT"] == "40000"


def test_every_regular_container_is_wired_and_no_init_container() -> None:
    start = started(job(others=(build.container(name="other"),), init=(build.container(name="prepare"),)))

    assert [values(one).get("RANK") for one in start.pod.containers] == ["1", "1"]
    assert start.pod.init_containers[0].env == ()


def test_kinds_that_wire_the_main_container_alone_do() -> None:
    both = build.container(name="main"), build.container(name="other")
    tf = build.job("TFJob", build.role("Worker", 2, *both))

    start = wiring.start(tf, build.member(tf, "worker"), 0, Addresses())

    assert ["TF_CONFIG" in values(one) for one in start.pod.containers] == [True, False]


def test_in_a_cluster_names_stay_as_they_are() -> None:
    of = job("--master=mnist-master-0.default.svc:23456", env=(EnvVar("PEER", "mnist-worker-1"),))

    start = started(of, addresses=Addresses())

    assert start.pod.containers[0].args == ("--master=mnist-master-0.default.svc:23456",)
    assert values(start.pod.containers[0])["PEER"] == "mnist-worker-1"
    assert values(start.pod.containers[0])["MASTER_ADDR"] == "mnist-master-0"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("mnist-master-0", "127.0.0.1"),
        ("mnist-master-0:23456", "127.0.0.1:40000"),
        ("mnist-worker-1:23456", "127.0.0.1:40002"),
        ("mnist-master-0:9100", "127.0.0.1:40100"),
        ("--init=tcp://mnist-master-0:23456", "--init=tcp://127.0.0.1:40000"),
        ("http://mnist-master-0:9100/path", "http://127.0.0.1:40100/path"),
        ("http://mnist-master-0/path", "http://127.0.0.1/path"),
        ("mnist-master-0:9100/path", "127.0.0.1:40100/path"),
        ("mnist-worker-0:23456,mnist-worker-1:23456", "127.0.0.1:40001,127.0.0.1:40002"),
        ("mnist-worker-0.default:23456", "127.0.0.1:40001"),
        ("mnist-worker-0.default.svc:23456", "127.0.0.1:40001"),
        ("mnist-worker-0.default.svc.cluster.local:23456", "127.0.0.1:40001"),
        ("ask mnist-worker-0.", "ask 127.0.0.1."),
        # A port that nobody declared is meant as it stands.
        ("mnist-worker-0:5555", "127.0.0.1:5555"),
    ],
)
def test_names_that_only_a_cluster_resolves_become_addresses(said: str, meant: str) -> None:
    start = started(job(said, env=(EnvVar("SAID", said),), init=(build.container(name="i", args=(said,)),)))

    main = start.pod.containers[0]
    assert main.command == ("train", meant)
    assert main.args == (meant,)
    assert values(main)["SAID"] == meant
    assert start.pod.init_containers[0].args == (meant,)


@pytest.mark.parametrize(
    "said",
    [
        "mnist",
        "mnist-worker",
        "mnist-worker-2",
        "mnist-worker-10",
        "mnist-worker-0x",
        "mnist-worker-0-logs",
        "my-mnist-worker-0",
        "x.mnist-worker-0",
        "mnist-worker-0.other.svc",
        "mnist-worker-0.example.com",
        "/data/mnist-worker-0",
        "/data/mnist-worker-0/out",
        "out/mnist-worker-0",
        "--log-dir=./mnist-worker-0/logs",
        "s3://bucket/mnist-master-0",
        "mnist-worker-0/checkpoints",
    ],
)
def test_what_only_looks_like_a_name_stays_as_it_is(said: str) -> None:
    assert started(job(said)).pod.containers[0].args == (said,)


def test_a_value_from_elsewhere_stays_from_there() -> None:
    source = EnvVar("POD", source=FieldRef("metadata.name"))

    assert source in started(job(env=(source,))).pod.containers[0].env


def test_names_of_kinds_that_are_not_found_by_address_stay() -> None:
    worker = build.role("Worker", 2, build.container("sleep", args=("mnist-worker-0",)))
    mpi = build.job("MPIJob", build.role("Launcher"), worker)
    book = Addresses(book={"mnist-worker-0": Address("127.0.0.1")})

    start = wiring.start(mpi, build.member(mpi, "worker"), 0, book)

    assert start.pod.containers[0].args == ("mnist-worker-0",)


def test_a_replica_needs_what_its_pod_claims_and_each_port_once() -> None:
    both = (
        build.container(name="main", ports={"a": 1, "b": 2}, requests=Resources(cpu=1000)),
        build.container(name="other", ports={"b": 3}, limits=Resources(cpu=500, memory=64)),
    )
    of = build.job("PyTorchJob", build.role("Worker", 1, *both))

    demand = wiring.demand(of, build.member(of, "worker"), frozenset())

    assert demand == Demand("mnist-worker-0", Resources(cpu=1500, memory=64), ("a", "b"))


def test_who_is_done_needs_at_most_its_address() -> None:
    gpu = Resources(cpu=1000, memory=64, devices={"nvidia.com/gpu": 1})
    with_port = build.job("PyTorchJob", build.role("Worker", 1, build.container(ports=PORT, requests=gpu)))
    without = build.job("Job", build.role("Pod", 1, build.container(requests=gpu)))

    kept = wiring.demand(with_port, build.member(with_port, "worker"), frozenset({"mnist-worker-0"}))
    none = wiring.demand(without, build.member(without, "pod"), frozenset({"mnist-0"}))

    assert kept == Demand("mnist-worker-0", Resources(cpu=0, memory=0), ("pytorchjob-port",))
    assert none is None


def test_a_member_of_a_role_that_is_not_declared_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="mnist-ps-0 has a role that its job does not declare"):
        wiring.role_of(job(), ReplicaId("mnist-ps-0", "ps", 0))
