"""An option that is not ours is told with the command line that passes it to the script."""

from __future__ import annotations

import pytest

from bireme.cli import script_options

OURS = {"--workers": True, "--detach": False, "-f": True, "-m": False}


@pytest.mark.parametrize(
    ("args", "left", "right"),
    [
        (["train.py", "--lr", "0.1"], ["train.py"], ["--lr", "0.1"]),
        (["train.py", "--lr=0.1", "--workers", "2"], ["train.py", "--workers", "2"], ["--lr=0.1"]),
        (["--lr", "0.1", "train.py", "--detach"], ["train.py", "--detach"], ["--lr", "0.1"]),
        (["train.py", "--fast", "--workers=2", "data"], ["train.py", "--workers=2"], ["--fast", "data"]),
        (["train.py", "--lr", "0.1", "--", "-x"], ["train.py"], ["--lr", "0.1", "-x"]),
    ],
)
def test_words_are_split_by_whom_they_are_for(args: list[str], left: list[str], right: list[str]) -> None:
    assert script_options.split(args, OURS) == (left, right)


def test_the_fix_can_be_pasted() -> None:
    error = script_options.belongs_elsewhere("--lr", ["my train.py", "--lr", "0.1"], OURS)

    assert error.hint == "write: bireme run 'my train.py' -- --lr 0.1"


def test_a_misspelt_option_of_ours_is_guessed() -> None:
    error = script_options.belongs_elsewhere("--worker", ["train.py", "--worker", "2"], OURS)

    assert error.hint.splitlines() == [
        "did you mean --workers? bireme run train.py --workers 2",
        "an option of train.py itself comes after --: bireme run train.py -- --worker 2",
    ]


def test_without_a_script_only_the_help_is_named() -> None:
    error = script_options.belongs_elsewhere("--lr", ["--lr", "0.1"], OURS)

    assert error.hint == "`bireme run --help` lists its options"


def test_a_value_that_was_given_is_neither_shown_nor_replaced() -> None:
    ours = {**OURS, "--env": True}
    words = ["-f", "job.yaml", "--env", "WANDB_API_KEY=realkey"]

    found = script_options.supplemented(words, ["--map", "/a=./b"], ours)

    assert found == ["with all of it: bireme run -f job.yaml --env WANDB_API_KEY --map /a=./b"]


@pytest.mark.parametrize("file", ["-", "<stdin>"])
def test_a_manifest_from_a_pipe_is_saved_first(file: str) -> None:
    found = script_options.supplemented(["-f", file], ["--fit"], OURS, ("install horovodrun",))

    assert found == [
        "first: save the manifest as job.yaml; install horovodrun",
        "with all of it: bireme run -f job.yaml --fit",
    ]
