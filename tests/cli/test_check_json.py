"""`check --json` answers in JSON whatever it is given, with the status that it would have without."""

from __future__ import annotations

import json

import pytest

from tests.cli.commands import Cli

BAD = "apiVersion: kubeflow.org/v1\nkind: TorchJob\n"
GOOD = "script: train.py\nname: good\n"


def test_complaints_about_bad_input_are_json_too(cli: Cli) -> None:
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
