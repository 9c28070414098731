"""Each kind becomes a definition that an API server can serve, and that kubectl can apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bireme import kinds
from bireme.operator.install import crds

Json = Any  # as a definition is written

SCALABLE = {"PyTorchJob", "PaddleJob", "JAXJob"}


def definition(kind: str) -> Json:
    return json.loads(json.dumps(crds.definition(kind)))


def nodes(schema: Json) -> Iterator[Json]:
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("additionalProperties"), schema.get("items")]
    for one in inner:
        if one:
            yield from nodes(one)


def schemas(kind: str) -> Iterator[Json]:
    for version in definition(kind)["spec"]["versions"]:
        yield from nodes(version["schema"]["openAPIV3Schema"])


def spec(kind: str, version: str = "v1") -> Json:
    versions = {one["name"]: one for one in definition(kind)["spec"]["versions"]}
    return versions[version]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_kubectl_can_apply_it_on_its_own_side(kind: str) -> None:
    # kubectl keeps the whole object in an annotation, which may have 262144 bytes.
    assert len(json.dumps(crds.definition(kind))) < 262144 // 3


def test_every_kind_but_the_native_one_is_defined() -> None:
    assert set(kinds.SERVED) == set(kinds.BY_NAME) - {"Job"}
    assert [one["spec"]["names"]["plural"] for one in map(definition, kinds.SERVED)] == [
        "pytorchjobs",
        "tfjobs",
        "mpijobs",
        "jaxjobs",
        "xgboostjobs",
        "paddlejobs",
        "mxjobs",
    ]


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_every_version_is_served_and_one_is_stored(kind: str) -> None:
    versions = definition(kind)["spec"]["versions"]

    assert {f"kubeflow.org/{one['name']}" for one in versions} == set(kinds.named(kind).api_versions)
    assert all(one["served"] for one in versions)
    assert [one["name"] for one in versions if one["storage"]] == ["v1"]


def test_the_storage_version_of_a_cluster_can_be_kept() -> None:
    kept = json.loads(json.dumps(crds.every("v2beta1")))

    stored = {
        one["spec"]["names"]["kind"]: [each["name"] for each in one["spec"]["versions"] if each["storage"]]
        for one in kept
    }
    assert stored == {str(kind): ["v2beta1" if kind == "MPIJob" else "v1"] for kind in kinds.SERVED}


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_the_columns_and_subresources_are_those_of_the_contract(kind: str) -> None:
    for version in definition(kind)["spec"]["versions"]:
        narrow = [one for one in version["additionalPrinterColumns"] if not one.get("priority")]
        assert [(one["name"], one["jsonPath"]) for one in narrow] == [
            ("State", ".status.conditions[-1:].type"),
            ("Age", ".metadata.creationTimestamp"),
        ]
        assert "status" in version["subresources"]
        assert ("scale" in version["subresources"]) == (kind in SCALABLE)


def test_versions_differ_in_nothing_but_the_default_of_their_own_field() -> None:
    found = [spec("MPIJob", version) for version in crds.versions("MPIJob")]

    defaults = {one["properties"]["servedVersion"].pop("default") for one in found}
    assert defaults == {"v1", "v1alpha2", "v2beta1"}
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_the_run_policy_is_always_there(kind: str) -> None:
    assert spec(kind)["properties"]["runPolicy"]["default"] == {}
    assert spec(kind)["required"] == [kinds.named(kind).specs]


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_every_field_that_a_kind_reads_is_declared(kind: str) -> None:
    import msgspec

    declared = spec(kind)["properties"]
    for field in msgspec.structs.fields(kinds.named(kind).Options):
        assert field.encode_name in declared


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_pod_templates_stay_open(kind: str) -> None:
    template = spec(kind)["properties"][kinds.named(kind).specs]["additionalProperties"]["properties"][
        "template"
    ]

    for path in ((), ("metadata",), ("spec",)):
        node = template
        for name in path:
            node = node["properties"][name]
        assert node["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_only_the_memory_of_the_operator_is_open_in_the_status(kind: str) -> None:
    for version in definition(kind)["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert status["properties"]["bireme"] == {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        assert "x-kubernetes-preserve-unknown-fields" not in status


@pytest.mark.parametrize("kind", kinds.SERVED)
def test_every_rule_has_a_sentence_and_what_it_iterates_over_has_a_bound(kind: str) -> None:
    for node in schemas(kind):
        for rule in node.get("x-kubernetes-validations", []):
            assert rule["message"]
            assert "\n" not in rule["message"]
        if "x-kubernetes-validations" in node:
            bounded = {"array": "maxItems", "string": "maxLength"}.get(node.get("type", ""))
            assert bounded is None or bounded in node or node.get("enum") or _only_compares(node)


def _only_compares(node: Json) -> bool:
    return all(rule["rule"] == "self == oldSelf" for rule in node["x-kubernetes-validations"])
