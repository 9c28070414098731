"""Installing refuses before it changes anything; uninstalling ends when Kubernetes forgets a definition."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from bireme import errors
from bireme.backends.kubernetes.client.api import Api
from bireme.operator.install import crds, installing
from bireme.operator.install.operator_objects import OperatorSettings
from tests.unit.kubernetes.apiserver import ApiServer, asked
from tests.unit.kubernetes_client.server import run, serving, status

STUCK = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionFailed",
    "message": "could not list instances: storage is (re)initializing",
}


class Forgetful:
    """An API server whose clean-up failed once; it tries again only when the definition changes."""

    def __init__(self) -> None:
        self.definition: dict[str, Any] | None = {
            **crds.definition("TFJob"),
            "status": {"conditions": []},
        }
        self.definition["metadata"] |= {"resourceVersion": "1", "uid": "one"}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        there = self.definition
        if there is None or not request.path.endswith(crds.definition_name("TFJob")):
            return status(404, "NotFound")
        if request.method == "DELETE":
            assert (await request.json())["preconditions"] == {"uid": "one"}
            there["status"]["conditions"] = [STUCK]
        if request.method == "PATCH":
            change = await request.json()
            assert set(change) == {"metadata"}
            assert change["metadata"]["annotations"]
            assert (change["metadata"]["uid"], change["metadata"]["resourceVersion"]) == ("one", "1")
            self.definition = None
        return web.json_response(there)


def test_a_definition_that_kubernetes_forgot_to_delete_is_brought_to_its_mind() -> None:
    async def story() -> None:
        server = Forgetful()
        async with serving(server.answer) as where, Api(where) as api:
            done = [one async for one in installing.uninstall(api, OperatorSettings("bireme"))]

        assert server.definition is None
        assert [one.name for one in done if one.outcome == "deleted"] == [crds.definition_name("TFJob")]

    run(story())


@pytest.mark.parametrize(
    "where", ["/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/namespaces/bireme/services"]
)
def test_what_somebody_else_made_is_refused_before_the_definitions_are_applied(where: str) -> None:
    server = ApiServer()
    server.put(f"{where}/bireme-operator")
    server.objects["/apis/apps/v1/deployments"] = {"items": []}

    async def install(api: Api) -> None:
        async for _ in installing.install(api, installing.InstallRequest(OperatorSettings("bireme"))):
            pass

    with pytest.raises(errors.BadInput, match="exists and is not managed by Bireme"):
        asked(server, install)

    assert not [one for one in server.asked if not one.startswith("GET")]
