"""A control plane for tests that change what all others share: the definitions of the job kinds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import SystemRandom

import pytest
import yaml
from tools.testcluster import clusters
from tools.testcluster.places import Home, Missing

from bireme.backends.kubernetes.client.access import find
from bireme.backends.kubernetes.client.api import Api
from bireme.backends.kubernetes.client.paths import path
from tests.cluster.harness import Json as Json
from tests.cluster.harness import Kubectl


@dataclass(frozen=True)
class Plane(Kubectl):
    """An API server without nodes, and kubectl for it."""

    def asked(self, *words: str, stdin: str = "") -> str:
        """What kubectl prints; it must not fail."""
        return self(*words, stdin=stdin)

    def refused(self, *words: str, stdin: str = "") -> str:
        """What kubectl complains about; it must fail."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def tried(self, text: str) -> Json:
        """What would become of a manifest: the object, or ApiError; it is not made."""
        manifest = yaml.safe_load(text)
        where = path(manifest["apiVersion"], f"{manifest['kind'].lower()}s", self.namespace)

        async def ask() -> Json:
            async with Api(find(time, SystemRandom(), kubeconfig=str(self.kubeconfig))) as api:
                return await api.create(where, manifest, dryRun="All", fieldValidation="Strict")

        return asyncio.run(ask())


def plane(purpose: str) -> contextlib.AbstractContextManager[Plane]:
    """A control plane of its own, gone afterwards; nobody collects what is left behind in it."""
    return _plane(purpose, clusters.Wish(nodes=0, controller_manager=False))


def managed_plane(purpose: str) -> contextlib.AbstractContextManager[Plane]:
    """The same with Kubernetes' own controllers: owned objects go with their owners, autoscalers scale."""
    return _plane(purpose, clusters.Wish(nodes=0))


@contextlib.contextmanager
def _plane(purpose: str, wish: clusters.Wish) -> Iterator[Plane]:
    name = f"{purpose}-{os.getpid()}"
    try:
        clusters.up(name, wish, tell=lambda words: None)
    except Missing as missing:
        pytest.skip(str(missing))
    try:
        yield Plane(Home(name).kubeconfig)
    finally:
        clusters.down(name)
