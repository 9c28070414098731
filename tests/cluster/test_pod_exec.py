"""Do commands in a real container, and its log, come back as they were?"""

from __future__ import annotations

import asyncio
import time
from random import SystemRandom

import pytest

from bireme.backends.kubernetes.client.access import find
from bireme.backends.kubernetes.client.api import Api, ApiError
from bireme.backends.kubernetes.client.paths import path
from bireme.backends.kubernetes.client.pod_exec import Executed, exec
from tests.cluster.harness import PYTHON, Kubectl

SCRIPT = "for number in 1 2 3; do echo line $number; sleep 0.2; done; sleep 1000"


def test_commands_run_in_a_container_and_its_log_is_followed(kubectl: Kubectl) -> None:
    container = {"name": "main", "image": PYTHON, "command": ["sh", "-c", SCRIPT]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec})
    kubectl.wait("--for=condition=Ready", "pod/a")
    where = kubectl.namespace

    async def story() -> None:
        async with (
            asyncio.timeout(60),
            Api(find(time, SystemRandom(), kubeconfig=str(kubectl.kubeconfig))) as api,
        ):
            both = ["sh", "-c", "echo out; echo 'oh no' >&2; exit 3"]
            assert await exec(api, where, "a", "main", both) == Executed(b"out\n", b"oh no\n", 3)
            much = bytes(range(256)) * 1000
            assert await exec(api, where, "a", "main", ["cat"], much) == Executed(much, b"", 0)
            with pytest.raises(ApiError, match="no-such-program"):
                await exec(api, where, "a", "main", ["no-such-program"])

            lines: list[bytes] = []
            async for line in api.lines(path("v1", "pods", where, "a", "log"), follow="true"):
                lines.append(line)
                if len(lines) == 3:
                    break
            assert lines == [b"line 1", b"line 2", b"line 3"]

    asyncio.run(story())
