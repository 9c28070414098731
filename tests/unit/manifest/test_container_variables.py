"""Environment variables, their sources, and how they refer to each other."""

from __future__ import annotations

import time

import pytest

from bireme.manifest.container_variables import references
from bireme.model.pods import EnvFrom, EnvSource, EnvVar, FieldRef, KeyRef, RefKind, ResourceRef
from tests.unit.manifest.samples import container_of, reading, refusal, warnings, with_container

ENV = "spec.jaxReplicaSpecs[Worker].template.spec.containers[0].env"


def env(*variables: tuple[str, str]) -> str:
    lines = "".join(f"- {{name: {name}, value: '{value}'}}\n" for name, value in variables)
    return with_container(f"env:\n{lines}")


def circle(*variables: tuple[str, str]) -> str:
    (diagnostic,) = refusal(env(*variables))
    return diagnostic


def test_values() -> None:
    found = container_of("env: [{name: A, value: b}, {name: C}]").env

    assert found == (EnvVar("A", "b"), EnvVar("C"))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("fieldRef: {fieldPath: status.podIP, apiVersion: v1}", FieldRef("status.podIP")),
        ("configMapKeyRef: {name: m, key: k}", KeyRef(RefKind.CONFIG_MAP, "m", "k")),
        ("secretKeyRef: {name: s, key: k, optional: true}", KeyRef(RefKind.SECRET, "s", "k", optional=True)),
        ("resourceFieldRef: {resource: limits.cpu}", ResourceRef("limits.cpu")),
        (
            "resourceFieldRef: {resource: limits.memory, containerName: c, divisor: 1Mi}",
            ResourceRef("limits.memory", "c", "1Mi"),
        ),
        ("resourceFieldRef: {resource: limits.memory, divisor: 0}", ResourceRef("limits.memory")),
    ],
)
def test_sources(source: str, value: EnvSource) -> None:
    assert container_of(f"env: [{{name: A, valueFrom: {{{source}}}}}]").env == (EnvVar("A", source=value),)


def test_whole_objects() -> None:
    found = container_of(
        "envFrom: [{configMapRef: {name: m}}, {prefix: P_, secretRef: {name: s, optional: true}}]"
    ).env_from

    assert found == (EnvFrom(RefKind.CONFIG_MAP, "m"), EnvFrom(RefKind.SECRET, "s", "P_", optional=True))


@pytest.mark.parametrize(
    ("fields", "diagnostic"),
    [
        ("env: {A: b}", "env: wanted a list, found a mapping"),
        ("env: [{value: b}]", "env[0].name: is missing"),
        ("env: [{name: A=B}]", 'env[0].name: Invalid value: "A=B": a valid environment variable name'),
        ("env: [{name: A, value: 1}]", "env[0].value: wanted a text, found the number 1 (put it in quotes)"),
        (
            "env: [{name: A, valueFrom: {}}]",
            "env[0].valueFrom: must specify one of: configMapKeyRef, fieldRef",
        ),
        (
            "env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: x}}}]",
            "env[0].valueFrom: Invalid value: may not be specified when `value` is not empty",
        ),
        (
            "env: [{name: A, valueFrom: {fieldRef: {}}}]",
            "env[0].valueFrom.fieldRef.fieldPath: is missing",
        ),
        ("env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]", "secretKeyRef.key: is missing"),
        (
            "env: [{name: A, valueFrom: {fileKeyRef: {}}}]",
            "a variable from a file of the pod is not supported",
        ),
        ("envFrom: [{prefix: A}]", "envFrom[0]: must specify one of: `configMapRef` or `secretRef`"),
        ("envFrom: [{configMapRef: {}}]", "envFrom[0].configMapRef.name: is missing"),
    ],
)
def test_what_is_refused(fields: str, diagnostic: str) -> None:
    (found,) = refusal(with_container(fields))

    assert diagnostic in found


def test_a_variable_that_is_set_twice_is_warned_about() -> None:
    assert warnings(env(("A", "1"), ("A", "2"))) == [
        f'job.yaml:14:16 {ENV}[1].name: the variable "A" is set twice; the last one holds'
    ]


# --- Circles ----------------------------------------------------------------------------------------------


def test_variables_in_a_circle_are_refused() -> None:
    assert circle(("A", "$(B)"), ("B", "x-$(A)")) == (
        f"job.yaml:13:32 {ENV}[0].value: the variables refer to each other in a circle: "
        "$(A) -> $(B) -> $(A) (give one of them a value of its own)"
    )
    assert "$(A) -> $(C) -> $(B) -> $(A)" in circle(("A", "$(C)"), ("B", "$(A)"), ("C", "$(B)$(B)"))


def test_a_variable_that_refers_to_itself_is_refused() -> None:
    assert "$(PATH) -> $(PATH)" in circle(("PATH", "/opt/bin:$(PATH)"))


@pytest.mark.parametrize(
    "variables",
    [
        [("A", "1"), ("B", "$(A)"), ("C", "$(A)$(B)")],
        [("A", "$(ELSEWHERE)")],
        [("A", "1"), ("A", "$(A)2")],
        [("A", "$$(B)"), ("B", "$(A)")],
        [("A", "$(B"), ("B", "$(A)")],
    ],
    ids=["earlier", "elsewhere", "of-the-same-name", "escaped", "unfinished"],
)
def test_what_is_no_circle_is_accepted(variables: list[tuple[str, str]]) -> None:
    assert reading(env(*variables)).jobs


def test_a_variable_may_extend_one_that_comes_from_an_object() -> None:
    assert container_of("envFrom: [{configMapRef: {name: m}}]\nenv: [{name: A, value: $(A):b}]").env


def test_a_variable_that_is_set_further_below_is_warned_about() -> None:
    assert warnings(env(("A", "$(B)"), ("B", "1"))) == [
        f'job.yaml:13:25 {ENV}[0].value: "$(B)" refers to a variable that is set below it, '
        "so it stays as written"
    ]


def test_a_very_long_circle_is_found() -> None:
    count = 5000
    variables = [(f"V{index}", f"$(V{(index + 1) % count})") for index in range(count)]

    begin = time.perf_counter()
    (diagnostic,) = refusal(env(*variables))

    assert "in a circle: $(V0) -> $(V1) -> $(V2)" in diagnostic
    assert len(diagnostic) < 1000
    assert time.perf_counter() - begin < 10


def test_references_of_a_text() -> None:
    assert references("$(A)-$$(B)-$(C)$(D E)$()") == ("A", "C")
