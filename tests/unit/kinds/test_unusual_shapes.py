"""Are jobs wired rightly that few people write."""

from __future__ import annotations

import pytest
from tests.unit import build

from bireme import kinds
from bireme.kinds.contract import Failed, ReplicaContext
from bireme.model.job import RunPolicy
from bireme.model.replicas import Address, Addresses
from bireme.model.status import Counts


def values(place: ReplicaContext) -> dict[str, str]:
    return {one.name: one.value for one in kinds.named(place.job.kind).wire(place)}


def test_ranks_of_workers_alone_begin_with_zero() -> None:
    job = build.job("PyTorchJob", build.role("Worker", 2), torchrun_environment=True)

    ranks = [values(build.place(job, "worker", index))["ROLE_RANK"] for index in range(2)]

    assert ranks == ["0", "1"]


def test_ranks_are_told_how_many_restarts_they_may_have() -> None:
    told = [
        values(
            build.place(
                build.job("PyTorchJob", policy=RunPolicy(backoff_limit=limit), torchrun_environment=True),
                "worker",
            )
        )["TORCHELASTIC_MAX_RESTARTS"]
        for limit in (None, 0, 3)
    ]

    assert told == ["0", "0", "3"]


def test_a_role_without_replicas_has_no_addresses() -> None:
    job = build.job("XGBoostJob", build.role("Master"), build.role("Worker", 0))

    assert "WORKER_ADDRS" not in values(build.place(job, "master"))


def test_servers_do_not_come_and_go_with_dynamic_workers() -> None:
    options = {"enableDynamicWorker": True}
    job = build.job("TFJob", build.role("PS", 2), build.role("Worker", 2), options=options)
    tally = build.tally(ps=Counts(active=1, failed=1), worker=Counts(active=2))

    assert isinstance(kinds.of(job).outcome(job, tally), Failed)


def test_a_launcher_needs_no_workers() -> None:
    job = build.job("MPIJob", build.role("Launcher"))

    assert list(kinds.of(job).validate(job)) == []


@pytest.mark.parametrize(("implementation", "files"), [("OpenMPI", 3), ("Intel", 2), ("MPICH", 2)])
def test_only_one_implementation_is_told_that_all_hosts_are_one(implementation: str, files: int) -> None:
    options = {"mpiImplementation": implementation}
    job = build.job("MPIJob", build.role("Launcher"), build.role("Worker", 2), options=options)
    book = Addresses(book={"mnist-worker-0": Address("127.0.0.1")})

    assert len(kinds.of(job).files(job, frozenset(), book)) == files
    assert len(kinds.of(job).files(job, frozenset(), build.CLUSTER)) == 2
