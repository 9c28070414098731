"""Are jobs wired rightly that few people write."""

from __future__ import annotations

from tests.unit import build

from bireme import kinds
from bireme.kinds.contract import Place
from bireme.model.job import Kind, RunPolicy


def values(place: Place) -> dict[str, str]:
    return {one.name: one.value for one in kinds.module(place.job.kind).wire(place)}


def test_ranks_of_workers_alone_begin_with_zero() -> None:
    job = build.job(Kind.PYTORCH, build.role("Worker", 2), torchrun_environment=True)

    ranks = [values(build.place(job, "worker", index))["ROLE_RANK"] for index in range(2)]

    assert ranks == ["0", "1"]


def test_ranks_are_told_how_many_restarts_they_may_have() -> None:
    told = [
        values(
            build.place(
                build.job(Kind.PYTORCH, policy=RunPolicy(backoff_limit=limit), torchrun_environment=True),
                "worker",
            )
        )["TORCHELASTIC_MAX_RESTARTS"]
        for limit in (None, 0, 3)
    ]

    assert told == ["0", "0", "3"]


def test_a_role_without_replicas_has_no_addresses() -> None:
    job = build.job(Kind.XGBOOST, build.role("Master"), build.role("Worker", 0))

    assert "WORKER_ADDRS" not in values(build.place(job, "master"))
