"""Counts mean ranks where a job is a script, and replicas of a role elsewhere."""

from __future__ import annotations

import pytest

from bireme import errors
from bireme.model.job import Job, RestartScope
from bireme.model.status import Phase
from bireme.sdk import scale_requests
from tests.unit import build


def script(ranks: int) -> Job:
    others = (build.role("Worker", ranks - 1),) if ranks > 1 else ()
    return build.job(
        "PyTorchJob", build.role("Master", 1), *others, unit=RestartScope.GANG, torchrun_environment=True
    )


def counted(job: Job, **counts: int) -> dict[str, int]:
    changed = scale_requests.resized("mnist", job, counts, Phase.RUNNING)
    return {one.name: one.replicas for one in changed.roles}


@pytest.mark.parametrize("name", ["workers", "worker"])
def test_ranks_of_a_script_are_counted_together(name: str) -> None:
    assert counted(script(2), **{name: 4}) == {"master": 1, "worker": 3}
    assert counted(script(2), **{name: 1}) == {"master": 1}
    assert counted(script(1), **{name: 2}) == {"master": 1, "worker": 1}


def test_a_rank_that_is_added_to_a_single_one_is_like_it() -> None:
    one = script(1)

    added = scale_requests.resized("mnist", one, {"workers": 2}, Phase.RUNNING).role("worker")

    assert added is not None
    assert (added.type, added.pod, added.restart) == ("Worker", one.roles[0].pod, one.roles[0].restart)


def test_replicas_of_a_manifest_are_counted_by_role() -> None:
    job = build.job("PyTorchJob", build.role("Master", 1), build.role("Worker", 2))

    assert counted(job, worker=3) == {"master": 1, "worker": 3}
    assert counted(job, workers=3) == {"master": 1, "worker": 3}


@pytest.mark.parametrize(
    ("job", "counts", "said"),
    [
        (script(2), {"workers": 0}, "at least 1 rank"),
        (script(2), {"master": 2}, "counted together"),
        (script(2), {"workers": 10**8}, "at most"),
        (build.job("JAXJob", build.role("Worker", 2)), {"ps": 1}, "no role ps"),
        (build.job("JAXJob", build.role("Worker", 2)), {"worker": -1}, "at least 0"),
        (
            build.job("MPIJob", build.role("Launcher", 1), build.role("Worker", 2), unit=RestartScope.GANG),
            {"worker": 3},
            "mpirun -np",
        ),
    ],
)
def test_what_cannot_be_is_refused(job: Job, counts: dict[str, int], said: str) -> None:
    with pytest.raises(errors.BadInput, match=said):
        scale_requests.resized("mnist", job, counts, Phase.RUNNING)


def test_what_has_ended_is_not_scaled() -> None:
    with pytest.raises(errors.BadInput, match="has ended"):
        scale_requests.resized("mnist", script(2), {"workers": 1}, Phase.FAILED)
