"""What stands in the files of `deploy/`."""

from __future__ import annotations

import yaml
from msgspec.structs import replace

from bireme import kinds
from bireme.operator.install import crds, operator_objects
from bireme.operator.install.operator_objects import Object, OperatorSettings

_MADE = "# Made by `make deploy`: change src/bireme/operator instead.\n"


def files() -> dict[str, str]:
    """The text of every file, by its path within the folder."""
    settings = OperatorSettings()
    definitions = {
        f"crds/{crds.definition_name(kind)}.yaml": _text(
            f"The custom resource {kind}.", crds.definition(kind)
        )
        for kind in kinds.SERVED
    }
    parts = {
        "namespace.yaml": _text("Where the operator lives.", operator_objects.namespace(settings)),
        "rbac.yaml": _text(
            "What the operator may do, and what users may do with jobs.", *operator_objects.rights(settings)
        ),
        "operator.yaml": _text("The operator, and its metrics.", *operator_objects.workload(settings)),
    }
    # Whoever wants it applies it beside the others: it is worth nothing where no network enforces it.
    policy = operator_objects.network(replace(settings, network_policy=True))
    return {
        **definitions,
        **parts,
        "network-policy.yaml": _text("Keeps others away from the operator's ports.", *policy),
        "crds/kustomization.yaml": _kustomization("Only the job kinds.", [one[5:] for one in definitions]),
        "kustomization.yaml": _kustomization(
            "Everything: kubectl apply -k deploy", ["crds", *parts], namespace=settings.namespace
        ),
    }


def _kustomization(purpose: str, resources: list[str], **more: object) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _text(purpose, {**head, **more, "resources": resources})


def _text(purpose: str, *objects: Object) -> str:
    documents = [
        yaml.dump(
            one, Dumper=_Plain, sort_keys=False, width=110, default_flow_style=False, allow_unicode=True
        )
        for one in objects
    ]
    return f"# {purpose}\n{_MADE}" + "---\n".join(documents)


class _Plain(yaml.SafeDumper):
    """Writes what is the same in two places twice: kubectl knows anchors, but people do not look for them."""

    def ignore_aliases(self, data: object) -> bool:
        return True
