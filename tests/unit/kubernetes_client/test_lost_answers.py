"""A create whose answer was lost is looked up by the token of its submission."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.objects.job_objects import SUBMISSION, JobObject
from bireme.backends.kubernetes.submit import job_client
from tests.unit.kubernetes_client.server import run, serving, status

JOB: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "one", "namespace": "ns", "annotations": {SUBMISSION: "ours"}},
    "spec": {},
}


def _created(token: str | None, answer: int, look: int = 404, body: dict[str, Any] = JOB) -> JobObject:
    """Creates a job of which the server has `token`, if any, and answers so; 0 breaks the connection.

    Without a token it answers a look at the job by `look`.
    """

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            if answer == 0:
                assert request.transport is not None
                request.transport.abort()
            return status(answer, "AlreadyExists" if answer == 409 else "InternalError")
        if token is None:
            return status(look, {403: "Forbidden", 404: "NotFound"}.get(look, "ServiceUnavailable"))
        return web.json_response(
            {"metadata": {"name": "one", "uid": "7", "annotations": {SUBMISSION: token}}}
        )

    async def story() -> JobObject:
        async with serving(handler) as where, Api(where, patience=0.3) as api:
            return await job_client.create(api, body)

    return run(story())


@pytest.mark.parametrize("answer", [409, 500, 0])
def test_a_job_with_our_token_was_created_by_us(answer: int) -> None:
    made = _created("ours", answer)

    assert (made.metadata.uid, made.kind) == ("7", "PyTorchJob")


@pytest.mark.parametrize(("token", "answer"), [("theirs", 409), (None, 500), (None, 0), ("ours", 403)])
def test_another_job_of_the_name_is_not_ours(token: str | None, answer: int) -> None:
    with pytest.raises(ApiError) as caught:
        _created(token, answer)

    assert caught.value.status == answer
    # What may still be carried out needs its code; what was refused does not.
    assert job_client.is_undecided(caught.value) == (answer in (0, 500))


@pytest.mark.parametrize("look", [403, 503])
@pytest.mark.parametrize("kind", ["PyTorchJob", "Job"])
def test_a_job_that_nobody_can_look_at_may_have_been_created(look: int, kind: str) -> None:
    version = "batch/v1" if kind == "Job" else "kubeflow.org/v1"

    with pytest.raises(ApiError, match="whether the job was created") as caught:
        _created(None, 409, look, {**JOB, "apiVersion": version, "kind": kind})

    assert job_client.is_undecided(caught.value)


def test_a_quota_that_was_written_by_two_at_once_is_not_a_name_that_is_taken() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            return status(409, "Conflict", "Operation cannot be fulfilled on resourcequotas")
        return status(404, "NotFound")

    async def story() -> None:
        async with serving(handler) as where, Api(where, patience=0.3) as api:
            await job_client.send_maps(api, "ns", [{"metadata": {"name": "code"}, "data": {}}], "ours")

    with pytest.raises(ApiError, match="resourcequotas"):
        run(story())
