"""`check --json` answers in JSON whatever it is given, with the status that it would have without."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import Cli

BAD = "apiVersion: kubeflow.org/v1\nkind: TorchJob\n"
GOOD = "script: train.py\nname: good\n"


def test_what_is_wrong_with_the_input_is_json_too(cli: Cli) -> None:
    cli.write("bad.yaml", BAD)
    cli.write("good.yaml", GOOD)
    cli.write("train.py", "")

    done = cli("check", "bad.yaml", "good.yaml", "--json")

    found = json.loads(done.out)
    (wrong,) = found["errors"]
    assert done.status == 2
    assert (wrong["file"], wrong["line"], wrong["field"]) == ("bad.yaml", 2, "kind")
    assert "Unsupported value" in wrong["text"]
    assert "did you mean" in wrong["hint"]
    assert [one["name"] for one in found["jobs"]] == ["good"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no manifest is given"),
        (["absent.yaml"], "there is no such file or folder"),
        (["absent.py"], "there is no script absent.py"),
        (["--on", "nowhere", "good.yaml"], "is no backend"),
    ],
)
def test_every_refusal_is_json(cli: Cli, words: list[str], told: str) -> None:
    cli.write("good.yaml", GOOD)

    done = cli("check", *words, "--json")

    (wrong,) = json.loads(done.out)["errors"]
    assert done.status == 2
    assert told in wrong["text"]


def test_what_is_valid_has_no_errors(cli: Cli) -> None:
    cli.write("good.yaml", GOOD)

    done = cli("check", "good.yaml", "--json")

    assert (done.status, json.loads(done.out)["errors"]) == (0, [])


JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: mnist}
spec:
  colour: blue
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
          - {name: pytorch, img: x, comand: [python, train.py], resources: {limits: {memory: 4}}}
          - {name: second, img: x, argz: [y], workDir: /}
"""


def test_text_and_json_say_the_same(cli: Cli) -> None:
    cli.write("job.yaml", JOB)

    found = json.loads(cli("check", "job.yaml", "--json").out)
    said = cli("check", "job.yaml").err

    fields = [one["field"].rpartition(".")[2] for one in found["errors"]]
    assert fields == ["image", "img", "comand", "memory", "image", "img", "argz", "workDir"]
    assert all(one["text"] in said for one in found["errors"])
    assert [one for one in found["warnings"] if "colour" in one]
    assert all(f"warning: {one}\n" in said for one in found["warnings"])


def test_what_is_valid_beside_what_is_not_is_said_in_text_too(cli: Cli) -> None:
    cli.write("bad.yaml", BAD)
    cli.write("good.yaml", GOOD)
    cli.write("train.py", "")

    done = cli("check", "bad.yaml", "good.yaml")

    assert (done.status, "PyTorchJob good is valid" in done.out) == (2, True)
    assert "Unsupported value" in done.err


def test_a_file_that_cannot_be_parsed_hides_no_other_of_its_folder(cli: Cli) -> None:
    (cli.folder / "jobs").mkdir()
    cli.write("jobs/a.yaml", "a: [\n")
    cli.write("jobs/b.yaml", JOB)
    cli.write("jobs/c.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n")

    found = json.loads(cli("check", "jobs", "--json").out)["errors"]
    started = cli("run", "-f", "jobs")

    assert {one["file"] for one in found} == {"jobs/a.yaml", "jobs/b.yaml"}
    assert (started.status, "jobs/a.yaml" in started.err, "comand" in started.err) == (2, True, True)


def test_a_wrong_kind_hides_nothing_that_can_be_judged(cli: Cli) -> None:
    cli.write("job.yaml", JOB.replace("kind: PyTorchJob", "kind: PytorchJob"))

    found = json.loads(cli("check", "job.yaml", "--json").out)["errors"]

    fields = [one["field"].rpartition(".")[2] for one in found]
    assert fields[:3] == ["kind", "image", "img"]
