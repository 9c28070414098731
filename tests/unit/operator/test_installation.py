"""What is installed is what stands in `deploy/`, fits together, and has no rights that it does not need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from tools.deploy.files import files

from bireme.operator import crds, installation
from bireme.operator.installation import Settings

DEPLOY = Path(__file__).parents[3] / "deploy"

SETTINGS = Settings()

Json = Any  # as objects are written


def by_kind(settings: Settings = SETTINGS) -> dict[str, Json]:
    found = [*installation.rights(settings), *installation.workload(settings)]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}  # type: ignore[index]


def test_the_files_are_current() -> None:
    written = {str(path.relative_to(DEPLOY)): path.read_text() for path in DEPLOY.rglob("*.yaml")}

    assert written == files(), "make deploy"


def test_the_files_hold_what_is_installed() -> None:
    settings = Settings()
    texts = [text for name, text in files().items() if not name.endswith("kustomization.yaml")]
    written = [one for text in texts for one in yaml.safe_load_all(text)]

    installed = [
        *crds.every(),
        installation.namespace(settings),
        *installation.rights(settings),
        *installation.workload(settings),
    ]
    assert sorted(written, key=str) == sorted(installed, key=str)


def test_everything_is_known_to_be_ours() -> None:
    for one in (*crds.every(), installation.namespace(Settings()), *by_kind().values()):
        metadata: Json = one["metadata"]
        assert metadata["labels"]["app.kubernetes.io/part-of"] == "bireme"


def test_a_chosen_namespace_and_image_are_used_everywhere() -> None:
    objects = by_kind(Settings("elsewhere", "registry.example/operator:1"))

    assert installation.NAMESPACE not in str(objects)
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

    assert {("pods/exec", "create"), ("pods", "get"), ("pods", "list"), ("pods", "watch")} <= held


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
