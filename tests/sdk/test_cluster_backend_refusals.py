"""What a user is told when a cluster does not take a job."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bireme import errors
from bireme.sdk import submissions
from bireme.sdk.backends import Where
from bireme.sdk.cluster import cluster_submission
from bireme.sdk.cluster.cluster_backend import ClusterPlace
from bireme.sdk.cluster.session import Session
from bireme.sdk.submissions import Invocation, RunOptions
from tests.unit.kubernetes.apiserver import ApiServer
from tests.unit.kubernetes_client.server import run, serving

MANIFEST: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "mnist"},
    "spec": {
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train:1"}]}}
    },
}


def refused(folder: Path, reason: str, message: str) -> errors.BiremeError:
    """Starts a job, which the cluster refuses by 409."""
    server = ApiServer()
    server.refusals["POST", "/jobs"] = 409, reason, message
    batch = submissions.of_manifest(MANIFEST, RunOptions(), Invocation(folder, {}))

    async def story() -> errors.BiremeError:
        async with serving(server.answer) as access:
            place = ClusterPlace(Session(access), cluster_submission.Home(folder, {}), Where())
            with pytest.raises(errors.BiremeError) as caught:
                await asyncio.to_thread(place.start, batch)
            return caught.value

    return run(story())


def test_a_quota_that_was_written_by_two_at_once_is_not_told_as_a_job_that_is_there(tmp_path: Path) -> None:
    told = refused(tmp_path, "Conflict", 'Operation cannot be fulfilled on resourcequotas "team"')

    assert "already" not in told.what
    assert "changed by someone else" not in told.what
    assert "resourcequotas" in told.what
    assert told.hint == "try again"


def test_a_job_of_the_name_is_told_with_how_to_end_it(tmp_path: Path) -> None:
    told = refused(tmp_path, "AlreadyExists", 'jobs "mnist" already exists')

    assert "Job mnist is in test/ns already" in told.what
    assert "bireme rm mnist" in told.hint
