"""What is installed is what stands in `deploy/`, fits together, and has no rights that it does not need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tools.deploy.files import files

from bireme import kinds
from bireme.backends.kubernetes.objects import mpi_objects
from bireme.operator.install import crds, operator_objects
from bireme.operator.install.operator_objects import OperatorSettings
from tests.unit.kubernetes.making import mpi

DEPLOY = Path(__file__).parents[3] / "deploy"

SETTINGS = OperatorSettings()

Json = Any  # as objects are written


def by_kind(settings: OperatorSettings = SETTINGS) -> dict[str, Json]:
    parts = (operator_objects.rights, operator_objects.network, operator_objects.workload)
    found = [one for part in parts for one in part(settings)]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}  # type: ignore[index]


def test_the_files_are_current() -> None:
    written = {str(path.relative_to(DEPLOY)): path.read_text() for path in DEPLOY.rglob("*.yaml")}

    assert written == files(), "make deploy"


def test_the_files_hold_what_is_installed() -> None:
    settings = OperatorSettings(network_policy=True)
    texts = [text for name, text in files().items() if not name.endswith("kustomization.yaml")]
    written = [one for text in texts for one in yaml.safe_load_all(text)]

    installed = [
        *crds.every(),
        operator_objects.namespace(settings),
        *operator_objects.rights(settings),
        *operator_objects.network(settings),
        *operator_objects.workload(settings),
    ]
    assert sorted(written, key=str) == sorted(installed, key=str)


def test_everything_is_known_to_be_ours() -> None:
    for one in (*crds.every(), operator_objects.namespace(OperatorSettings()), *by_kind().values()):
        metadata: Json = one["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "bireme"


def test_a_chosen_namespace_and_image_are_used_everywhere() -> None:
    objects = by_kind(OperatorSettings("elsewhere", "registry.example/operator:1"))

    assert operator_objects.NAMESPACE not in str(objects)
    assert "registry.example/operator:1" in str(objects["Deployment bireme-operator"])
    assert objects["ClusterRoleBinding bireme-operator"]["subjects"][0]["namespace"] == "elsewhere"


def test_the_operator_has_no_rights_over_everything() -> None:
    for name in ("ClusterRole bireme-operator", "Role bireme-operator"):
        for rule in by_kind()[name]["rules"]:
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
            assert "deletecollection" not in rule["verbs"]
            assert not {"bind", "escalate", "impersonate"} & set(rule["verbs"])
            if "secrets" in rule["resources"]:
                assert rule["verbs"] == ["create", "get"]


def test_the_operator_holds_what_it_grants_to_a_launcher() -> None:
    rules = by_kind()["ClusterRole bireme-operator"]["rules"]
    held = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    role = mpi_objects.launcher_role(mpi().job, ["mnist-worker-0"])
    granted = {
        (resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert granted <= held


def granted(kinds: tuple[str, ...]) -> set[str]:
    rules = by_kind(OperatorSettings(kinds=kinds))["ClusterRole bireme-operator"]["rules"]
    return {resource for rule in rules for resource in rule["resources"]}


def test_without_mpi_there_is_no_right_over_secrets_roles_and_exec() -> None:
    only_mpi = {"secrets", "serviceaccounts", "roles", "rolebindings", "pods/exec", "configmaps"}
    others = tuple(kind for kind in kinds.SERVED if kind != "MPIJob")

    assert not granted(others) & only_mpi
    assert granted(("MPIJob",)) >= only_mpi


def test_rights_over_jobs_are_those_of_the_kinds_that_are_served() -> None:
    found = granted(("JAXJob",))

    assert {one for one in found if one.partition("/")[0].endswith("jobs")} == {
        "jaxjobs",
        "jaxjobs/status",
        "jaxjobs/finalizers",
    }
    assert "horizontalpodautoscalers" not in found


def test_the_operator_is_told_which_kinds_it_serves() -> None:
    def arguments(settings: OperatorSettings) -> str:
        pod = by_kind(settings)["Deployment bireme-operator"]["spec"]["template"]["spec"]
        return " ".join(pod["containers"][0]["args"])

    assert "--kind" not in arguments(OperatorSettings())
    assert "--kind TFJob --kind JAXJob" in arguments(OperatorSettings(kinds=("TFJob", "JAXJob")))


def test_the_pod_listens_at_its_own_address_only() -> None:
    (container,) = by_kind()["Deployment bireme-operator"]["spec"]["template"]["spec"]["containers"]

    words = container["args"]
    assert words[words.index("--health-bind") + 1] == words[words.index("--metrics-bind") + 1] == "$(POD_IP)"
    (address,) = [one for one in container["env"] if one["name"] == "POD_IP"]
    assert address["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_a_network_policy_is_there_when_it_is_wanted() -> None:
    wanted = by_kind(OperatorSettings(network_policy=True))

    assert not any(name.startswith("NetworkPolicy") for name in by_kind())
    spec = wanted["NetworkPolicy bireme-operator"]["spec"]
    pod = wanted["Deployment bireme-operator"]["spec"]["template"]
    assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert [one["ports"] for one in spec["ingress"]] == [[{"port": "metrics"}]]


def test_the_pod_is_confined() -> None:
    pod = by_kind()["Deployment bireme-operator"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_service_reaches_the_pod() -> None:
    objects = by_kind()
    labels = objects["Deployment bireme-operator"]["spec"]["template"]["metadata"]["labels"]

    assert objects["Service bireme-operator"]["spec"]["selector"].items() <= labels.items()
