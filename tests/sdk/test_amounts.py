"""A limit that no process could live in is a forgotten unit, and is refused with the one that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk import submissions
from bireme.sdk.submissions import Invocation, RunOptions, Script

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: deep}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: dl
        image: x
        command: [python, train.py]
        resources:
          limits:
            memory: AMOUNT
"""


@pytest.fixture
def invocation(tmp_path: Path) -> Invocation:
    (tmp_path / "train.py").write_text("")
    return Invocation(tmp_path, {"PATH": "/bin"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [("4", "4Gi"), ("0.5", "0.5Gi"), ("512", "512Mi"), ("400m", "400Mi"), ("64k", "64Mi"), ("1e1", "4Gi")],
)
def test_memory_that_no_process_could_live_in_is_refused(
    invocation: Invocation, written: str, meant: str
) -> None:
    with pytest.raises(errors.BadInput) as caught:
        submissions.of_script(Script(path="train.py", memory=written), RunOptions(), invocation)

    assert f"--memory {written} is " in caught.value.what
    assert meant in caught.value.hint


@pytest.mark.parametrize("written", ["16Mi", "100M", "4Gi", "20000000", "0"])
def test_memory_that_a_process_can_live_in_is_taken(invocation: Invocation, written: str) -> None:
    assert submissions.of_script(
        Script(path="train.py", memory=written), RunOptions(), invocation
    ).submissions


def test_the_same_limit_in_a_manifest_is_refused_with_its_line(invocation: Invocation) -> None:
    documents = submissions.documents([JOB.replace("AMOUNT", "4")])

    with pytest.raises(errors.BadManifest) as caught:
        submissions.of_documents(documents, RunOptions(), invocation)

    assert "<text>:14:13 " in str(caught.value)
    assert "limits.memory: 4 is 4 B" in str(caught.value)
    assert "did you mean 4Gi?" in str(caught.value)


def test_the_short_form_says_it_too(invocation: Invocation) -> None:
    with pytest.raises(errors.BadManifest, match=r"<text>:2:9 memory: .*did you mean 4Gi\?"):
        submissions.of_documents(
            submissions.documents(["script: train.py\nmemory: 4\n"]), RunOptions(), invocation
        )


def test_a_small_request_is_nothing_odd(invocation: Invocation) -> None:
    text = JOB.replace("limits", "requests").replace("AMOUNT", "4")

    assert submissions.of_documents(submissions.documents([text]), RunOptions(), invocation).submissions
