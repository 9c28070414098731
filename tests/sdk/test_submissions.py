"""What the user gives becomes submissions that lack nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk import submissions
from bireme.sdk.submissions import Invocation, RunOptions, Script, SubmissionBatch


@pytest.fixture
def invocation(tmp_path: Path) -> Invocation:
    (tmp_path / "train.py").write_text("")
    return Invocation(tmp_path, {"PATH": "/bin"})


def _of_text(text: str, invocation: Invocation, name: str = "") -> SubmissionBatch:
    return submissions.of_documents(submissions.documents([text]), RunOptions(), invocation, name)


def test_a_script_becomes_a_gang_that_runs_where_the_user_stands(invocation: Invocation) -> None:
    script = Script(path="train.py", args=("--lr", "0.1"), workers=2)

    (submission,) = submissions.of_script(script, RunOptions(env={"A": "b"}), invocation).submissions

    assert submission.job.total == 2
    assert submission.cwd == str(invocation.cwd)
    assert submission.job.roles[0].container.command == ("python", "train.py", "--lr", "0.1")
    assert [(one.name, one.value) for one in submission.job.roles[0].container.env] == [("A", "b")]
    assert submission.environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("train.py", "train"),
        ("a/My_Net.v2.py", "my-net-v2"),
        ("date.bin", "date"),
        ("123.py", "job"),
        ("日.py", "job"),
    ],
)
def test_names_are_made_of_scripts(path: str, stem: str) -> None:
    name = submissions.name_of(path)

    assert name.rpartition("-")[0] == stem
    assert len(name.rpartition("-")[2]) == 4
    assert len({submissions.name_of(path) for _ in range(5)}) > 1


def test_a_module_gives_its_last_word() -> None:
    assert submissions.name_of("pkg.train", is_module=True).rpartition("-")[0] == "train"


def test_relative_paths_are_meant_from_where_the_user_stands_even_for_a_manifest_elsewhere(
    invocation: Invocation,
) -> None:
    (invocation.cwd / "sub").mkdir()
    (invocation.cwd / "sub" / "job.yaml").write_text("script: train.py\nname: mnist\n")
    documents = submissions.documents([str(invocation.cwd / "sub" / "job.yaml")], lambda _: b"")

    options = RunOptions(maps={"/opt": "src"}, volumes={"claim": "data"}, python="bin/python")
    (submission,) = submissions.of_documents(documents, options, invocation).submissions

    assert submission.cwd == str(invocation.cwd / "sub")
    assert submission.options.maps == {"/opt": str(invocation.cwd / "src")}
    assert submission.options.volumes == {"claim": str(invocation.cwd / "data")}
    assert submission.options.python == str(invocation.cwd / "bin/python")


def test_a_generated_name_gets_its_letters_and_a_given_one_is_kept(invocation: Invocation) -> None:
    (short,) = _of_text("script: train.py\nworkers: 1\n", invocation).submissions
    (named,) = _of_text("script: train.py\nname: mnist\n", invocation).submissions

    assert short.job.name.startswith("train-")
    assert len(short.job.name) == len("train-k3xq")
    assert short.manifest["metadata"] == {**_metadata(short.manifest), "name": short.job.name}
    assert named.job.name == "mnist"


def test_another_name_is_checked_like_the_first(invocation: Invocation) -> None:
    text = "script: train.py\nname: mnist\n"

    (submission,) = _of_text(text, invocation, "other").submissions

    assert submission.job.name == "other"
    with pytest.raises(errors.BadInput, match="names have a-z, 0-9 and -; try not-a-name"):
        _of_text(text, invocation, "Not_A_Name")


def test_one_name_for_several_jobs_is_refused(invocation: Invocation) -> None:
    text = "script: train.py\nname: a\n---\nscript: train.py\nname: b\n"

    with pytest.raises(errors.BadInput, match="there are 2 in the manifest"):
        _of_text(text, invocation, "other")


def test_two_jobs_of_one_name_are_refused(invocation: Invocation) -> None:
    text = "script: train.py\nname: a\n---\nscript: train.py\nname: a\nkind: JAXJob\n"

    with pytest.raises(errors.BadInput, match="two jobs named a"):
        _of_text(text, invocation)


def test_secrets_keep_their_bytes(invocation: Invocation) -> None:
    text = (
        "script: train.py\nname: a\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: /w==}\n"
    )

    (submission,) = _of_text(text, invocation).submissions

    assert submission.references.secrets == {"s": {"k": b"\xff"}}


def test_standard_input_is_read_once(invocation: Invocation) -> None:
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return b"script: train.py\n"

    assert len(submissions.documents(["-"], read)) == 1
    assert len(asked) == 1
    with pytest.raises(errors.BadInput, match="only once"):
        submissions.documents(["-", "-"], read)


def test_a_manifest_is_rendered_so_that_it_can_be_read_again(invocation: Invocation) -> None:
    rendered = submissions.rendered(
        _of_text("script: train.py\nname: a\n---\nscript: train.py\nname: b\n", invocation)
    )

    assert [one.job.name for one in _of_text(rendered, invocation).submissions] == ["a", "b"]


def _metadata(manifest: dict[str, object]) -> dict[str, object]:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return metadata
