"""What environment and arguments does a container see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.core.replicas import container_env
from bireme.core.replicas.container_env import Facts, Unresolved
from bireme.model.pods import (
    Container,
    EnvFrom,
    EnvSource,
    EnvVar,
    FieldRef,
    KeyRef,
    RefKind,
    ResourceRef,
    Resources,
)

FACTS = Facts(
    name="mnist-worker-0",
    namespace="team",
    uid="u-1",
    ip="10.0.0.7",
    node="box",
    labels={"app": "mnist"},
    annotations={"note/a": "b"},
)
REFERENCES = {
    (RefKind.CONFIG_MAP, "settings"): {"LR": "0.1", "EPOCHS": "3"},
    (RefKind.SECRET, "settings"): {"LR": "secret"},
}


def seen(
    *env: EnvVar,
    env_from: tuple[EnvFrom, ...] = (),
    requests: Resources | None = None,
    limits: Resources | None = None,
    **inherited: str,
) -> dict[str, str]:
    container = Container(
        "main", env=env, env_from=env_from, requests=requests or Resources(), limits=limits or Resources()
    )
    return container_env.environment(container, FACTS, REFERENCES, inherited)


def sourced(source: EnvSource, **resources: Resources) -> str:
    return seen(EnvVar("X", source=source), **resources)["X"]  # type: ignore[arg-type]


# Expansion.


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$", "$"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("$( A )", "$( A )"),
        ("$()", "$()"),
        ("$(C)", "$(A)"),
    ],
)
def test_references_are_expanded_once(text: str, expanded: str) -> None:
    assert container_env.expand(text, {"A": "1", "B": "2", "C": "$(A)"}) == expanded


@given(st.text(alphabet="$()AB x", max_size=12))
def test_nothing_without_a_dollar_changes_and_nothing_fails(text: str) -> None:
    expanded = container_env.expand(text, {"A": "1"})

    assert "$" in text or expanded == text


def test_a_command_and_its_arguments_are_expanded() -> None:
    container = Container("main", command=("run", "$(A)"), args=("--lr=$(B)",))

    assert container_env.argv(container, {"A": "1", "B": "2"}) == ("run", "1", "--lr=2")


# Where values come from.


def test_later_variables_see_earlier_ones_and_the_last_of_a_name_holds() -> None:
    values = seen(EnvVar("A", "1"), EnvVar("B", "$(A)$(C)"), EnvVar("C", "3"), EnvVar("A", "2"))

    assert values == {"A": "2", "B": "1$(C)", "C": "3"}


def test_a_container_sees_what_its_place_gives_unless_it_says_otherwise() -> None:
    assert seen(EnvVar("HOME", "/work"), EnvVar("P", "$(PATH)"), HOME="/root", PATH="/bin") == {
        "HOME": "/work",
        "PATH": "/bin",
        "P": "/bin",
    }


def test_a_weak_variable_yields_to_anything() -> None:
    weak = EnvVar("OMP_NUM_THREADS", "1", weak=True)

    assert seen(weak)["OMP_NUM_THREADS"] == "1"
    assert seen(weak, OMP_NUM_THREADS="8")["OMP_NUM_THREADS"] == "8"
    assert seen(EnvVar("OMP_NUM_THREADS", "4"), weak)["OMP_NUM_THREADS"] == "4"


def test_bundles_come_before_variables_and_later_bundles_win() -> None:
    config, secret = (EnvFrom(kind, "settings") for kind in (RefKind.CONFIG_MAP, RefKind.SECRET))

    assert seen(env_from=(config,)) == {"LR": "0.1", "EPOCHS": "3"}
    assert seen(env_from=(config, secret), LR="9") == {"LR": "secret", "EPOCHS": "3"}
    assert seen(EnvVar("LR", "0.5"), env_from=(config,))["LR"] == "0.5"


def test_a_bundle_may_have_a_prefix() -> None:
    assert seen(env_from=(EnvFrom(RefKind.SECRET, "settings", prefix="MY_"),)) == {"MY_LR": "secret"}


def test_an_absent_bundle_is_refused_unless_it_may_be_absent() -> None:
    absent = EnvFrom(RefKind.SECRET, "keys")

    with pytest.raises(Unresolved, match=r"^Secret keys \(envFrom of container main\)$"):
        seen(env_from=(absent,))
    assert seen(env_from=(EnvFrom(RefKind.SECRET, "keys", optional=True),)) == {}


def test_a_variable_may_come_from_a_key() -> None:
    assert sourced(KeyRef(RefKind.CONFIG_MAP, "settings", "EPOCHS")) == "3"
    assert sourced(KeyRef(RefKind.SECRET, "settings", "LR")) == "secret"


@pytest.mark.parametrize(("owner", "key"), [("settings", "NONE"), ("nothing", "LR")])
def test_an_absent_key_is_refused_unless_it_may_be_absent(owner: str, key: str) -> None:
    with pytest.raises(Unresolved, match=f"^key {key} of Secret {owner} \\(variable X of container main\\)$"):
        sourced(KeyRef(RefKind.SECRET, owner, key))
    assert seen(EnvVar("X", source=KeyRef(RefKind.SECRET, owner, key, optional=True))) == {}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "mnist-worker-0"),
        ("metadata.namespace", "team"),
        ("metadata.uid", "u-1"),
        ("status.podIP", "10.0.0.7"),
        ("status.hostIP", "10.0.0.7"),
        ("spec.nodeName", "box"),
        ("spec.serviceAccountName", "default"),
        ("metadata.labels['app']", "mnist"),
        ("metadata.labels['note/a']", ""),
        ("metadata.annotations['note/a']", "b"),
        ("metadata.annotations['app']", ""),
    ],
)
def test_a_variable_may_come_from_the_replica_itself(path: str, value: str) -> None:
    assert sourced(FieldRef(path)) == value


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(Unresolved, match=r"^field metadata\.colour$"):
        sourced(FieldRef("metadata.colour"))


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1m", "500"),
        ("limits.cpu", "0", "2"),
        ("limits.memory", "1Mi", "64"),
        ("requests.memory", "1", str(64 * 2**20)),
        ("limits.nvidia.com/gpu", "1", "2"),
        ("limits.amd.com/gpu", "1", "0"),
    ],
)
def test_a_variable_may_come_from_the_resources_rounded_up(resource: str, divisor: str, value: str) -> None:
    limits = Resources(cpu=1500, memory=64 * 2**20, devices={"nvidia.com/gpu": 2})

    source = ResourceRef(resource, divisor=divisor)

    assert sourced(source, requests=Resources(cpu=500), limits=limits) == value


def test_resources_that_nobody_set_are_zero() -> None:
    assert sourced(ResourceRef("limits.cpu")) == "0"
    assert sourced(ResourceRef("limits.memory")) == "0"
