"""Manifests that were changed at random are read or refused: no traceback, and none takes over a second."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bireme.errors import BadManifest
from bireme.manifest.rendering import render
from bireme.manifest.text.source import read_text
from bireme.model.job import replica_ids
from tests.unit.manifest.samples import EVERY, outcome, reading

EXAMPLES = 300
SOAK_EXAMPLES = 3000
LONGEST = 1.0

RICH = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: rich, annotations: {bireme.io/restart: gang}}
spec:
  elasticPolicy: {minReplicas: 1, maxReplicas: 4, rdzvConf: [{key: a, value: b}], metrics: [{type: Resource}]}
  runPolicy: {backoffLimit: 3, schedulingPolicy: {minResources: {cpu: 1}}}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        metadata: {labels: {a: b}}
        spec:
          terminationGracePeriodSeconds: 3
          initContainers: [{name: init, image: x, restartPolicy: Always}]
          containers:
            - name: pytorch
              image: x
              command: [python]
              env:
                - {name: A, value: $(B)}
                - {name: B, valueFrom: {configMapKeyRef: {name: m, key: k}}}
                - {name: C, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
              envFrom: [{prefix: P, secretRef: {name: s}}]
              ports: [{name: http, containerPort: 80}]
              resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 500m}}
              volumeMounts: [{name: v, mountPath: /a, subPath: b}]
          volumes: [{name: v, configMap: {name: m, items: [{key: k, path: p}]}}, {name: w, emptyDir: {}}]
---
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {k: YQ==}
---
script: train.py --epochs 10
workers: 2..4
gpu: 1
memory: 1Gi
env: {A: b}
kind: TFJob
"""

SEEDS = [*EVERY.values(), RICH]

Json = Any  # a manifest while it is being changed can be anything

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "-1", "1Gi", "4GB", "$(A)", "$(B)", "All", "Never", "Worker", "../..", "x" * 300, "yes", "1e999"]
    ),
    st.sampled_from([-1, 0, 2**31, 2**63, 2**64, 10**30, 1e308, 1.5]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def manifests(draw: st.DrawFn) -> str:
    """A manifest with one to four changes: a value replaced, dropped, renamed, doubled or moved elsewhere."""
    documents: Json = [document.root.plain() for document in read_text(draw(st.sampled_from(SEEDS)))]
    for _ in range(draw(st.integers(1, 4))):
        _change(draw, documents)
    text: str = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=draw(st.booleans()))
    return _broken(draw, text) if draw(st.integers(0, 5)) == 0 else text


def _change(draw: st.DrawFn, documents: Json) -> None:
    places = list(_places(documents))
    container, key = draw(st.sampled_from(places))
    match draw(st.sampled_from(["value", "value", "drop", "rename", "copy", "wrap", "grow"])):
        case "value":
            container[key] = draw(VALUES)
        case "drop":
            del container[key]
        case "rename" if isinstance(container, dict):
            container[
                draw(st.sampled_from([f"{key}s", key.upper(), key.swapcase(), key[1:]]) | st.text(max_size=5))
            ] = container.pop(key)
        case "copy":
            other, where = draw(st.sampled_from(places))
            container[key] = copy.deepcopy(other[where]) if _has(other, where) else None
        case "wrap":
            container[key] = [container[key]]
        case _ if isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
    if not documents:
        documents.append(draw(VALUES))


def _has(container: Json, key: Json) -> bool:
    return key in container if isinstance(container, dict) else key < len(container)


def _places(value: Json) -> Json:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in list(entries):
        yield value, key
        yield from _places(inner)


def _broken(draw: st.DrawFn, text: str) -> str:
    """Damages the text itself."""
    at = draw(st.integers(0, len(text)))
    inserted = draw(
        st.text(max_size=5)
        | st.sampled_from(["\t", "{", "]", ": ", "- ", "&a ", "*a", "---\n", "!!", "\x00", "'"])
    )
    return text[:at] + inserted + text[at + draw(st.integers(0, 5)) :]


def check(text: str) -> None:
    begin = time.perf_counter()
    found = outcome(text)
    if isinstance(found, BadManifest):
        assert len(str(found).splitlines()) <= 12
        assert str(found).startswith("job.yaml")
        assert all(diagnostic.text for diagnostic in found.diagnostics)
    else:
        for each in found.jobs:
            assert all(
                len(member.name) <= 63 for member, _ in zip(replica_ids(each.job), range(100), strict=False)
            )
            assert reading(render(each)).jobs[0].job == each.job
    assert time.perf_counter() - begin < LONGEST


QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(manifests())
def test_changed_manifests_are_read_or_refused(text: str) -> None:
    check(text)


@pytest.mark.soak
@settings(max_examples=SOAK_EXAMPLES, deadline=None, suppress_health_check=QUIET)
@given(manifests())
def test_thousands_of_changed_manifests_are_read_or_refused(text: str) -> None:
    check(text)


def test_the_seeds_themselves_are_read() -> None:
    for text in SEEDS:
        assert reading(text).jobs
        check(text)
