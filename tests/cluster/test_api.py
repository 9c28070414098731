"""Does the client speak to a real API server as it should?"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bireme.backends.kubernetes.client.api import PATCHES, Api, ApiError, Expected
from bireme.backends.kubernetes.client.error_hints import explained
from bireme.backends.kubernetes.client.paths import path
from bireme.errors import BadInput, BadManifest, NoAccess
from tests.cluster.client_fixtures import MINE, Settings, crd, remove, told, with_user, working

GONE = "00000000-0000-0000-0000-000000000000"
"""The uid of an object that had the name before."""
NO_CERTIFICATE = {"client-certificate-data": None, "client-key-data": None}


def test_an_object_lives_from_create_to_delete(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        made = await api.create(maps, told("a", one="1"), Settings)
        assert made.metadata.namespace == where
        assert made.data == {"one": "1"}

        one = path("v1", "configmaps", where, "a")
        assert await api.get(one, Settings) == made
        ours = Expected(made.metadata.uid)
        merged = await api.patch(one, {"data": {"two": "2"}}, Settings, meant=ours)
        assert merged.data == {"one": "1", "two": "2"}
        removing = [{"op": "remove", "path": "/data/one"}]
        assert (await api.patch(one, removing, Settings, meant=ours, how="json")).data == {"two": "2"}
        three = {"data": {"three": "3"}}
        assert (await api.patch(one, three, Settings, meant=ours, how="strategic")).data["three"] == "3"
        applied = {"apiVersion": "v1", "kind": "ConfigMap", **told("a", two="two")}
        kept = await api.patch(one, applied, Settings, meant=ours, how="apply", force="true")
        assert kept.data["two"] == "two"

        assert await api.delete(one, uid=GONE) is None
        assert (await api.get(one, Settings)).metadata.uid == made.metadata.uid
        await api.delete(one, uid=made.metadata.uid)
        assert await api.delete(one, uid=made.metadata.uid) is None

    working(kubeconfig, story)


@pytest.mark.parametrize("how", list(PATCHES))
def test_a_change_that_is_meant_for_another_object_is_refused(kubeconfig: Path, how: str) -> None:
    async def story(api: Api, where: str) -> None:
        made = await api.create(path("v1", "configmaps", where), told("a", one="1"), Settings)
        one = path("v1", "configmaps", where, "a")
        whole = {"apiVersion": "v1", "kind": "ConfigMap", **told("a", one="2")}
        body = [{"op": "add", "path": "/data/one", "value": "2"}] if how == "json" else whole

        for meant in (Expected(GONE), Expected(made.metadata.uid, "1"), Expected(GONE, "1")):
            with pytest.raises(ApiError) as caught:
                await api.patch(one, body, meant=meant, how=how)
            assert (caught.value.status, caught.value.reason) == (409, "Conflict")

        assert await api.get(one, Settings) == made

    working(kubeconfig, story)


def test_what_was_created_already_is_the_callers_to_judge(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        await api.create(maps, told("a"))
        with pytest.raises(ApiError) as caught:
            await api.create(maps, told("a"))
        assert (caught.value.status, caught.value.reason) == (409, "AlreadyExists")

    working(kubeconfig, story)


def test_what_is_left_of_a_deleted_object_is_returned(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        uid = (await api.create(maps, held, Settings)).metadata.uid

        left = await api.delete(path("v1", "configmaps", where, "held"), Settings, uid=uid)

        assert left is not None
        assert left.metadata.deletionTimestamp
        freed = {"metadata": {"finalizers": None}}
        await api.patch(path("v1", "configmaps", where, "held"), freed, meant=Expected(uid))
        with pytest.raises(ApiError, match="not found"):
            await api.get(path("v1", "configmaps", where, "held"))

    working(kubeconfig, story)


def test_a_list_in_pages_is_whole(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        async with asyncio.TaskGroup() as group:
            for number in range(25):
                group.create_task(api.create(maps, told(f"m{number:02}")))

        before = api.requests["GET configmaps"]
        found = await api.listing(maps, Settings, limit="10", labelSelector=MINE)

        assert [each.metadata.name for each in found.items] == [f"m{number:02}" for number in range(25)]
        assert api.requests["GET configmaps"] - before == 3
        assert int(found.version) > 0

    working(kubeconfig, story)


def test_five_hundred_creates_by_sixty_four_at_a_time(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        maps = path("v1", "configmaps", where)
        numbers = iter(range(500))

        async def sender() -> None:
            for number in numbers:
                await api.create(maps, told(f"m{number}"))

        async with asyncio.TaskGroup() as group:
            for _ in range(64):
                group.create_task(sender())
        assert len((await api.listing(maps, Settings, labelSelector=MINE)).items) == 500
        assert api.requests["POST configmaps"] >= 500

    working(kubeconfig, story)


def test_an_invalid_object_names_its_fields(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        with pytest.raises(ApiError) as caught:
            await api.create(
                path("v1", "pods", where), {"metadata": {"name": "Bad_Name"}, "spec": {"containers": []}}
            )

        error = explained(caught.value)
        assert isinstance(error, BadManifest)
        assert "metadata.name" in error.what
        assert "spec.containers" in error.what

    working(kubeconfig, story)


def test_a_kind_that_is_not_installed_is_said(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        with pytest.raises(ApiError) as caught:
            await api.get(path("kubeflow.org/v7", "tfjobs", where))

        error = explained(caught.value)
        assert isinstance(error, BadInput)
        assert "tfjobs.kubeflow.org/v7" in error.what
        assert error.hint == "bireme install"

    working(kubeconfig, story)


def test_a_kind_just_made_can_be_used_at_once(kubeconfig: Path) -> None:
    async def story(api: Api, where: str) -> None:
        plural, made = crd()
        await api.create(path("apiextensions.k8s.io/v1", "customresourcedefinitions"), made)
        things = path("example.com/v1", plural, where)
        thing = {
            "apiVersion": "example.com/v1",
            "kind": made["spec"]["names"]["kind"],
            "metadata": {"name": "a"},
        }
        try:
            while not await served(api, things):
                await asyncio.sleep(0.05)
            uid = (await api.create(things, thing, Settings)).metadata.uid
            assert [each async for each in api.watch(things, Settings, timeoutSeconds="1")]
            # The answer to the delete of such an object is a Status: nothing is left.
            assert await api.delete(path("example.com/v1", plural, where, "a"), Settings, uid=uid) is None
        finally:
            await remove(
                api, path("apiextensions.k8s.io/v1", "customresourcedefinitions", "", f"{plural}.example.com")
            )

    working(kubeconfig, story)


async def served(api: Api, where: str) -> bool:
    try:
        await api.get(where)
    except ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def test_a_service_account_without_rights_is_told_who_it_is_and_what_it_lacks(
    kubeconfig: Path, tmp_path: Path
) -> None:
    async def story(api: Api, where: str) -> None:
        await api.create(path("v1", "serviceaccounts", where), {"metadata": {"name": "robot"}})
        asked = path("v1", "serviceaccounts", where, "robot", "token")
        token = (await api.create(asked, {"spec": {}}))["status"]["token"]

        async with Api(with_user(kubeconfig, tmp_path, {**NO_CERTIFICATE, "token": token})) as weak:
            with pytest.raises(ApiError) as caught:
                await weak.create(path("v1", "pods", where), {"metadata": {"name": "x"}})

        error = explained(caught.value)
        assert isinstance(error, NoAccess)
        assert (
            f"user system:serviceaccount:{where}:robot may not create pods in namespace {where}" in error.what
        )

    working(kubeconfig, story)


def test_a_wrong_token_is_no_access(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(api: Api, where: str) -> None:
        async with Api(with_user(kubeconfig, tmp_path, {**NO_CERTIFICATE, "token": "wrong"})) as stranger:
            with pytest.raises(ApiError) as caught:
                await stranger.get(path("v1", "pods", where))
        assert isinstance(explained(caught.value), NoAccess)

    working(kubeconfig, story)


def test_impersonation_is_understood(kubeconfig: Path, tmp_path: Path) -> None:
    async def story(api: Api, where: str) -> None:
        user = {"as": "bot", "as-groups": ["robots"]}
        async with Api(with_user(kubeconfig, tmp_path, user)) as acting:
            reviews = path("authentication.k8s.io/v1", "selfsubjectreviews")
            review = await acting.create(
                reviews, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            )
        assert review["status"]["userInfo"]["username"] == "bot"
        assert "robots" in review["status"]["userInfo"]["groups"]

    working(kubeconfig, story)
