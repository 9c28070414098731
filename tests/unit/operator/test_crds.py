"""Each kind becomes a definition that an API server can serve, and that kubectl can apply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bireme import kinds
from bireme.model.job import Kind
from bireme.operator.install import crds

Json = Any  # as a definition is written

SCALABLE = {Kind.PYTORCH, Kind.PADDLE, Kind.JAX}


def definition(kind: Kind) -> Json:
    return json.loads(json.dumps(crds.definition(kind)))


def nodes(schema: Json) -> Iterator[Json]:
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("additionalProperties"), schema.get("items")]
    for one in inner:
        if one:
            yield from nodes(one)


def schemas(kind: Kind) -> Iterator[Json]:
    for version in definition(kind)["spec"]["versions"]:
        yield from nodes(version["schema"]["openAPIV3Schema"])


def spec(kind: Kind, version: str = "v1") -> Json:
    versions = {one["name"]: one for one in definition(kind)["spec"]["versions"]}
    return versions[version]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@pytest.mark.parametrize("kind", crds.KINDS)
def test_kubectl_can_apply_it_on_its_own_side(kind: Kind) -> None:
    # kubectl keeps the whole object in an annotation, which may have 262144 bytes.
    assert len(json.dumps(crds.definition(kind))) < 262144 // 3


def test_every_kind_but_the_native_one_is_defined() -> None:
    assert set(crds.KINDS) == set(kinds.MODULES) - {Kind.BATCH}
    assert [one["spec"]["names"]["plural"] for one in map(definition, crds.KINDS)] == [
        "tfjobs",
        "pytorchjobs",
        "mpijobs",
        "xgboostjobs",
        "paddlejobs",
        "jaxjobs",
    ]


@pytest.mark.parametrize("kind", crds.KINDS)
def test_every_version_is_served_and_one_is_stored(kind: Kind) -> None:
    versions = definition(kind)["spec"]["versions"]

    assert {f"kubeflow.org/{one['name']}" for one in versions} == set(kinds.module(kind).API_VERSIONS)
    assert all(one["served"] for one in versions)
    assert [one["name"] for one in versions if one["storage"]] == ["v1"]


def test_the_storage_version_of_a_cluster_can_be_kept() -> None:
    kept = json.loads(json.dumps(crds.every("v2beta1")))

    stored = {
        one["spec"]["names"]["kind"]: [each["name"] for each in one["spec"]["versions"] if each["storage"]]
        for one in kept
    }
    assert stored == {str(kind): ["v2beta1" if kind is Kind.MPI else "v1"] for kind in crds.KINDS}


@pytest.mark.parametrize("kind", crds.KINDS)
def test_the_columns_and_subresources_are_those_of_the_contract(kind: Kind) -> None:
    for version in definition(kind)["spec"]["versions"]:
        narrow = [one for one in version["additionalPrinterColumns"] if not one.get("priority")]
        assert [(one["name"], one["jsonPath"]) for one in narrow] == [
            ("State", ".status.conditions[-1:].type"),
            ("Age", ".metadata.creationTimestamp"),
        ]
        assert "status" in version["subresources"]
        assert ("scale" in version["subresources"]) == (kind in SCALABLE)


def test_versions_differ_in_nothing_but_the_default_of_their_own_field() -> None:
    found = [spec(Kind.MPI, version) for version in crds.versions(Kind.MPI)]

    defaults = {one["properties"]["servedVersion"].pop("default") for one in found}
    assert defaults == {"v1", "v1alpha2", "v2beta1"}
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("kind", crds.KINDS)
def test_the_run_policy_is_always_there(kind: Kind) -> None:
    assert spec(kind)["properties"]["runPolicy"]["default"] == {}
    assert spec(kind)["required"] == [kinds.module(kind).SPECS]


@pytest.mark.parametrize("kind", crds.KINDS)
def test_every_field_that_a_kind_reads_is_declared(kind: Kind) -> None:
    import msgspec

    declared = spec(kind)["properties"]
    for field in msgspec.structs.fields(kinds.module(kind).Options):
        assert field.encode_name in declared


@pytest.mark.parametrize("kind", crds.KINDS)
def test_pod_templates_stay_open(kind: Kind) -> None:
    template = spec(kind)["properties"][kinds.module(kind).SPECS]["additionalProperties"]["properties"][
        "template"
    ]

    for path in ((), ("metadata",), ("spec",)):
        node = template
        for name in path:
            node = node["properties"][name]
        assert node["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize("kind", crds.KINDS)
def test_only_the_memory_of_the_operator_is_open_in_the_status(kind: Kind) -> None:
    for version in definition(kind)["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert status["properties"]["bireme"] == {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        assert "x-kubernetes-preserve-unknown-fields" not in status


@pytest.mark.parametrize("kind", crds.KINDS)
def test_every_rule_has_a_sentence_and_what_it_iterates_over_has_a_bound(kind: Kind) -> None:
    for node in schemas(kind):
        for rule in node.get("x-kubernetes-validations", []):
            assert rule["message"]
            assert "\n" not in rule["message"]
        if "x-kubernetes-validations" in node:
            bounded = {"array": "maxItems", "string": "maxLength"}.get(node.get("type", ""))
            assert bounded is None or bounded in node or node.get("enum") or _only_compares(node)


def _only_compares(node: Json) -> bool:
    return all(rule["rule"] == "self == oldSelf" for rule in node["x-kubernetes-validations"])
