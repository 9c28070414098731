"""Every role of every kind is looked at before anything starts; what may be there is not refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bireme import errors
from bireme.sdk.client import Client
from bireme.sdk.submissions import RunOptions
from bireme.sdk.views import CheckedJob

ROLES = """
apiVersion: kubeflow.org/v1
kind: KIND
metadata: {name: mnist}
spec:
  SPECS:
    FIRST:
      replicas: 1
      template: {spec: {containers: [{name: NAME, image: x, command: [python, here.py]}]}}
    Worker:
      replicas: 1
      template: {spec: {containers: [{name: NAME, image: x, command: COMMAND}]}}
"""


KINDS = [
    ("PyTorchJob", "pytorchReplicaSpecs", "Master", "pytorch"),
    ("XGBoostJob", "xgbReplicaSpecs", "Master", "xgboost"),
    ("TFJob", "tfReplicaSpecs", "Chief", "tensorflow"),
    ("MPIJob", "mpiReplicaSpecs", "Launcher", "mpi"),
    ("PaddleJob", "paddleReplicaSpecs", "Master", "paddle"),
]


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.py").touch()
    return Client(tmp_path / "home", {"PATH": "/usr/bin:/bin", "VIRTUAL_ENV": sys.prefix})


def _checked(client: Client, command: str, kind: tuple[str, ...] = KINDS[0], **given: object) -> CheckedJob:
    text = ROLES.replace("COMMAND", command)
    for word, value in zip(("KIND", "SPECS", "FIRST", "NAME"), kind, strict=True):
        text = text.replace(word, value)
    (job,) = client.check(text, RunOptions(**given)).jobs  # type: ignore[arg-type]
    return job


def test_a_working_folder_that_is_gone_is_a_sentence(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()

    with pytest.raises(errors.BadInput, match="does not exist any more"):
        client.run(tmp_path / "here.py")


@pytest.mark.parametrize("kind", KINDS, ids=[one[0] for one in KINDS])
def test_a_worker_of_any_kind_lacks_its_script(client: Client, kind: tuple[str, ...]) -> None:
    job = _checked(client, "[bash, -c, 'cd /opt/app && python train.py']", kind)

    assert f"Worker container {kind[3]}: there is no script /opt/app/train.py" in job.here
    assert job.flags == ("--map", "/opt/app=./folder")


@pytest.mark.parametrize(
    "command",
    [
        "[python, here.py]",
        "[bash, -c, 'git clone x /opt/app && python /opt/app/train.py']",
        "[python, $(SCRIPT)]",
        "[sh, -c, 'exec $0', x]",
    ],
)
def test_what_is_there_or_cannot_be_known_is_not_refused(client: Client, command: str) -> None:
    assert _checked(client, command).here == ""


def test_an_interpreter_of_the_image_is_supplied_by_the_environment_at_hand(client: Client) -> None:
    job = _checked(client, "[/opt/conda/bin/python, here.py]")

    assert "there is no program /opt/conda/bin/python" in job.here
    assert job.flags == ("--map", f"/opt/conda={sys.prefix}")


def test_a_map_that_lacks_the_script_is_named(client: Client, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()

    job = _checked(client, "[python, /opt/app/train.py]", maps={"/opt/app": "src"})

    assert "there is no script /opt/app/train.py in what --map /opt/app supplies" in job.here


def test_a_program_that_is_not_installed_has_no_option_that_supplies_it(client: Client) -> None:
    job = _checked(client, "[no-such-program]")

    assert "there is no program no-such-program on this machine (install no-such-program)" in job.here
    assert job.flags == ()


def test_a_file_at_the_root_is_supplied_by_itself(client: Client, tmp_path: Path) -> None:
    lacking = _checked(client, "[python, /train.py]")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()

    assert lacking.flags == ("--map", "/train.py=./train.py")
    assert _checked(client, "[python, /train.py]").flags == ("--map", "/train.py=./src/train.py")
    assert _checked(client, "[python, /train.py]", maps={"/train.py": "src/train.py"}).here == ""


def test_the_programs_of_this_machine_are_not_hidden_by_a_folder(client: Client) -> None:
    job = _checked(client, "[/usr/bin/nosuchinterp, here.py]")

    assert "there is no program /usr/bin/nosuchinterp (install nosuchinterp)" in job.here
    assert job.flags == ()
    assert _checked(client, "[/usr/bin/python3.99, here.py]").flags == ()


def test_what_both_roles_lack_is_said_once(client: Client) -> None:
    text = ROLES.replace("[python, here.py]", "COMMAND").replace("COMMAND", "[python, /a/b.py]")
    for word, value in zip(("KIND", "SPECS", "FIRST", "NAME"), KINDS[0], strict=True):
        text = text.replace(word, value)

    (job,) = client.check(text).jobs

    assert job.here.splitlines()[1:] == [
        "Master and Worker container pytorch: there is no script /a/b.py (--map /a=./folder)"
    ]


def test_a_name_that_is_longer_than_any_file_has_is_asked_for_like_any_other(client: Client) -> None:
    found = _checked(client, f"[python, /{'x' * 300}/train.py]")

    assert "there is no script /xxx" in found.here


def test_what_no_option_supplies_is_said_beside_the_options(client: Client) -> None:
    job = _checked(client, "[no-such-launcher]").by_hand

    assert job == ("install no-such-launcher",)
