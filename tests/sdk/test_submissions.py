"""What the user gives becomes orders that lack nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk import manifest_sources, submissions
from bireme.sdk.submissions import Invocation, RunOptions, Script, SubmissionBatch


@pytest.fixture
def scene(tmp_path: Path) -> Invocation:
    (tmp_path / "train.py").write_text("")
    return Invocation(tmp_path, {"PATH": "/bin"})


def _of_text(text: str, scene: Invocation, name: str = "") -> SubmissionBatch:
    return submissions.of_documents(manifest_sources.of_text(text), RunOptions(), scene, name)


def test_a_script_becomes_a_gang_that_runs_where_the_user_stands(scene: Invocation) -> None:
    script = Script(path="train.py", args=("--lr", "0.1"), workers=2, env={"A": "b"})

    (order,) = submissions.of_script(script, RunOptions(), scene).orders

    assert order.job.total == 2
    assert order.supplies.cwd == str(scene.cwd)
    assert order.job.roles[0].container.command == ("python", "train.py", "--lr", "0.1")
    assert [(one.name, one.value) for one in order.job.roles[0].container.env] == [("A", "b")]
    assert order.environ == {"PATH": "/bin"}


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
    scene: Invocation,
) -> None:
    (scene.cwd / "sub").mkdir()
    (scene.cwd / "sub" / "job.yaml").write_text("script: train.py\nname: mnist\n")
    documents = manifest_sources.documents([str(scene.cwd / "sub" / "job.yaml")], lambda _: b"")

    given = RunOptions(maps={"/opt": "src"}, volumes={"claim": "data"}, python="bin/python")
    (order,) = submissions.of_documents(documents, given, scene).orders

    assert order.supplies.cwd == str(scene.cwd / "sub")
    assert order.supplies.maps == {"/opt": str(scene.cwd / "src")}
    assert order.supplies.volumes == {"claim": str(scene.cwd / "data")}
    assert order.supplies.python == str(scene.cwd / "bin/python")


def test_a_generated_name_gets_its_letters_and_a_given_one_is_kept(scene: Invocation) -> None:
    (short,) = _of_text("script: train.py\nworkers: 1\n", scene).orders
    (named,) = _of_text("script: train.py\nname: mnist\n", scene).orders

    assert short.job.name.startswith("train-")
    assert len(short.job.name) == len("train-k3xq")
    assert short.manifest["metadata"] == {**_metadata(short.manifest), "name": short.job.name}
    assert named.job.name == "mnist"


def test_another_name_is_checked_like_the_first(scene: Invocation) -> None:
    text = "script: train.py\nname: mnist\n"

    (order,) = _of_text(text, scene, "other").orders

    assert order.job.name == "other"
    with pytest.raises(errors.BadInput, match="names have a-z, 0-9 and -; try not-a-name"):
        _of_text(text, scene, "Not_A_Name")


def test_one_name_for_several_jobs_is_refused(scene: Invocation) -> None:
    text = "script: train.py\nname: a\n---\nscript: train.py\nname: b\n"

    with pytest.raises(errors.BadInput, match="there are 2 in the manifest"):
        _of_text(text, scene, "other")


def test_two_jobs_of_one_name_are_refused(scene: Invocation) -> None:
    text = "script: train.py\nname: a\n---\nscript: train.py\nname: a\nkind: JAXJob\n"

    with pytest.raises(errors.BadInput, match="two jobs named a"):
        _of_text(text, scene)


def test_secrets_keep_their_bytes(scene: Invocation) -> None:
    text = (
        "script: train.py\nname: a\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {k: /w==}\n"
    )

    (order,) = _of_text(text, scene).orders

    assert order.references.secrets == {"s": {"k": b"\xff"}}


def test_standard_input_is_read_once(scene: Invocation) -> None:
    asked: list[int] = []

    def read(size: int) -> bytes:
        asked.append(size)
        return b"script: train.py\n"

    assert len(manifest_sources.documents(["-"], read)) == 1
    assert len(asked) == 1
    with pytest.raises(errors.BadInput, match="only once"):
        manifest_sources.documents(["-", "-"], read)


def test_a_manifest_is_rendered_so_that_it_can_be_read_again(scene: Invocation) -> None:
    rendered = submissions.rendered(
        _of_text("script: train.py\nname: a\n---\nscript: train.py\nname: b\n", scene)
    )

    assert [one.job.name for one in _of_text(rendered, scene).orders] == ["a", "b"]


def _metadata(manifest: dict[str, object]) -> dict[str, object]:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    return metadata
