"""A rendered manifest is complete, plain, and means the same when it is read again."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bireme.manifest.read import from_manifest
from bireme.manifest.rendering import complete, render
from bireme.manifest.text.source import read_text
from tests.unit.manifest.samples import (
    EVERY,
    JAXJOB,
    MPIJOB_V2BETA1,
    POD,
    PYTORCHJOB,
    SHORT,
    TFJOB,
    job_of,
    reading,
)

RENDERED_SHORT = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  generateName: train-
  annotations:
    bireme.io/restart: gang
    bireme.io/environment: torchrun
spec:
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 3
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: pytorch
            image: pytorch/pytorch
            command:
            - python
            - train.py
            - --epochs
            - "10"
            resources:
              limits:
                nvidia.com/gpu: 1
            ports:
            - containerPort: 23456
              name: pytorchjob-port
    Worker:
      replicas: 3
      restartPolicy: Never
      template:
        spec:
          containers:
          - name: pytorch
            image: pytorch/pytorch
            command:
            - python
            - train.py
            - --epochs
            - "10"
            resources:
              limits:
                nvidia.com/gpu: 1
            ports:
            - containerPort: 23456
              name: pytorchjob-port
  nprocPerNode: auto
"""


def rendered(text: str) -> str:
    (found,) = reading(text).jobs
    return render(found)


def test_the_short_form_written_out() -> None:
    assert rendered(SHORT) == RENDERED_SHORT


@pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)
def test_a_rendered_manifest_is_the_same_job(text: str) -> None:
    assert job_of(rendered(text)) == job_of(text)


@pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)
def test_a_rendered_manifest_needs_no_more_rendering(text: str) -> None:
    once = rendered(text)

    assert rendered(once) == once


@pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)
def test_a_rendered_manifest_means_the_same_to_another_parser(text: str) -> None:
    assert yaml.safe_load(rendered(text)) == read_text(rendered(text))[0].root.plain()


def test_rendering_leaves_the_manifest_alone() -> None:
    (found,) = reading(TFJOB).jobs
    before = read_text(TFJOB)[0].root.plain()

    complete(found)

    assert found.manifest == before


def test_aliases_are_written_out_and_roles_get_their_usual_names() -> None:
    text = rendered(TFJOB)

    assert "&" not in text
    assert "*" not in text
    assert [line.strip() for line in text.splitlines() if line.startswith("    ") and line[4] != " "] == [
        "Chief:",
        "Evaluator:",
        "PS:",
        "Worker:",
        "cleanPodPolicy: None",
    ]


def test_a_number_that_should_be_a_text_becomes_one() -> None:
    assert '  nprocPerNode: "2"\n' in rendered(PYTORCHJOB)


def test_what_the_cluster_says_is_left_out() -> None:
    assert "status" not in rendered(f"{JAXJOB}status: {{conditions: []}}\n")


def test_a_pod_becomes_a_job() -> None:
    assert rendered(POD).startswith("apiVersion: batch/v1\nkind: Job\n")


TEXTS = st.one_of(
    st.sampled_from(
        ["y", "n", "on", "1e3", "0755", "0o17", "1_000", "~", "", "null", ".5", "1:30", "<<", "- a", "a: b"]
    ),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Co", "Cn"], include_characters="\n\t"), max_size=20
    ),
)


@given(st.lists(TEXTS, max_size=5))
def test_any_text_comes_back_as_it_was(arguments: list[str]) -> None:
    manifest = read_text(JAXJOB)[0].root.plain()
    manifest["spec"]["jaxReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = arguments
    (found,) = from_manifest(manifest).jobs

    again = job_of(render(found)).roles[0].container.args

    assert again == tuple(arguments)


def test_a_launcher_that_is_never_restarted_in_place_is_rendered_as_never() -> None:
    written = MPIJOB_V2BETA1.replace("Launcher: {", "Launcher: {restartPolicy: Never, ")

    again = reading(render(reading(written).jobs[0])).jobs[0].job

    assert again == job_of(written)
