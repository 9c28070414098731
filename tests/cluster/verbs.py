"""The command line in a namespace of a cluster, with a home and a folder of its own."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from tests.cli.commands import Cli, Done
from tests.cluster.harness import ControlPlane, Json, Kubectl


@dataclass(frozen=True)
class Verbs:
    """Bireme as a user of one namespace has it: his kubeconfig names the cluster and the namespace."""

    cli: Cli
    kubectl: Kubectl
    kubeconfig: Path

    @property
    def namespace(self) -> str:
        return self.kubectl.namespace

    def __call__(self, *words: str, **environ: str) -> Done:
        return self.cli(*words, **{"KUBECONFIG": str(self.kubeconfig), **environ})

    def done(self, *words: str, **environ: str) -> Done:
        """Runs a command that must succeed."""
        ended = self(*words, **environ)
        assert ended.status == 0, ended.err
        return ended

    def json(self, *words: str) -> Json:
        return json.loads(self.done(*words, "--json").out)

    def manifest(self, manifest: Json, *others: Json) -> str:
        """Puts manifests into a file and returns its name."""
        (self.cli.folder / "job.yaml").write_text(yaml.safe_dump_all([*others, manifest]))
        return "job.yaml"

    def changed(self, **context_or_user: Any) -> Verbs:
        """The same with another kubeconfig: fields of the user, or `server`."""
        tree = yaml.safe_load(self.kubeconfig.read_text())
        server = context_or_user.pop("server", None)
        if server is not None:
            tree["clusters"][0]["cluster"]["server"] = server
        tree["users"][0]["user"] |= context_or_user
        file = self.kubeconfig.with_name("changed")
        file.write_text(yaml.safe_dump(tree))
        return replace(self, kubeconfig=file)


@contextlib.contextmanager
def verbs(plane: ControlPlane, cli: Cli, folder: Path) -> Iterator[Verbs]:
    with plane.namespace() as own:
        tree = yaml.safe_load(plane.kubeconfig.read_text())
        tree["contexts"][0]["context"]["namespace"] = own.namespace
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(tree))
        yield Verbs(cli, own, file)
