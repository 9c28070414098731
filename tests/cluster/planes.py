"""A control plane for tests that change what all others share: the definitions of the job kinds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.testcluster import clusters
from tools.testcluster.places import Home

from bireme.backends.kubernetes.access import find
from bireme.backends.kubernetes.api import Api
from bireme.backends.kubernetes.paths import path

PATIENCE = 60.0

Json = Any  # whatever the API server answers


@dataclass(frozen=True)
class Plane:
    """An API server without nodes, and kubectl for it."""

    kubeconfig: Path

    def kubectl(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Runs kubectl to its end, whatever that is."""
        return subprocess.run(
            [clusters.kubectl(), "--kubeconfig", self.kubeconfig, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def asked(self, *words: str, stdin: str = "") -> str:
        """What kubectl prints; it must not fail."""
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *words: str, stdin: str = "") -> str:
        """What kubectl complains about; it must fail."""
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def tried(self, text: str) -> Json:
        """What would become of a manifest: the object, or ApiError; it is not made."""
        manifest = yaml.safe_load(text)
        plural = f"{manifest['kind'].lower()}s"
        where = path(manifest["apiVersion"], plural, "default")

        async def ask() -> Json:
            async with Api(find(kubeconfig=str(self.kubeconfig))) as api:
                return await api.create(where, manifest, dryRun="All", fieldValidation="Strict")

        return asyncio.run(ask())

    def object(self, *words: str) -> Json:
        return json.loads(self.asked("get", *words, "-o", "json"))


@contextlib.contextmanager
def plane(purpose: str) -> Iterator[Plane]:
    """A control plane of its own, gone afterwards."""
    name = f"{purpose}-{os.getpid()}"
    clusters.up(name, clusters.Wish(nodes=0, controller_manager=False), tell=lambda words: None)
    try:
        yield Plane(Home(name).kubeconfig)
    finally:
        clusters.down(name)
