"""A script is run as what it is: Python, a shell's, a program; a notebook is refused with the way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Cli

NOTEBOOK = json.dumps({"cells": [], "nbformat": 4, "metadata": {}})
SHELL = 'echo "shell rank $RANK of $WORLD_SIZE: $1"\n'


@pytest.mark.parametrize(
    "words", [["run", "nb.ipynb"], ["run", "-f", "job.yaml"], ["check", "nb.ipynb"], ["nb.ipynb"]]
)
def test_a_notebook_does_not_succeed_but_is_refused_with_the_way_out(cli: Cli, words: list[str]) -> None:
    cli.write("nb.ipynb", NOTEBOOK)
    cli.write("job.yaml", "script: nb.ipynb\n")

    done = cli(*words)

    assert done.status == 2, done.err
    assert "jupyter nbconvert --to script nb.ipynb && bireme run nb.py" in done.err
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("name", "first", "mode"),
    [
        ("run.sh", "", 0o644),
        ("run.sh", "#!/bin/bash -e\n[[ -n $BASH_VERSION ]]\n", 0o644),
        ("train", "#!/usr/bin/env bash\n", 0o755),
    ],
)
def test_a_shell_script_is_not_run_as_python(cli: Cli, name: str, first: str, mode: int) -> None:
    cli.write(name, first + SHELL)
    (cli.folder / name).chmod(mode)

    done = cli("run", name, "--workers", "2", "--", "--lr")

    assert done.status == 0, done.err
    assert f"started {name.partition('.')[0]}-" in done.err
    assert "shell rank 0 of 2: --lr" in done.out
    assert "shell rank 1 of 2: --lr" in done.out


def test_a_program_is_run_directly_and_in_the_short_form_too(cli: Cli) -> None:
    (cli.folder / "prog").write_bytes(Path("/bin/echo").read_bytes())
    (cli.folder / "prog").chmod(0o755)
    cli.write("job.yaml", "script: prog from the program\nname: direct\n")

    done = cli("run", "-f", "job.yaml")
    (cli.folder / "prog").chmod(0o644)
    refused = cli("run", "prog")

    assert done.status == 0, done.err
    assert "from the program" in done.out
    assert (refused.status, "chmod +x prog" in refused.err) == (2, True)


@pytest.mark.parametrize("first", ["#!/usr/bin/env python3\n", ""])
def test_python_without_its_ending_stays_python(cli: Cli, first: str) -> None:
    cli.write("train", first + "import sys\nprint('python', sys.version_info[0])\n")

    done = cli("run", "train")

    assert done.status == 0, done.err
    assert "python 3" in done.out


def test_what_is_neither_python_nor_says_what_runs_it_is_refused(cli: Cli) -> None:
    cli.write("train", "x <- c(1, 2)\nif (x) then\n")

    done = cli("run", "train")

    assert done.status == 2
    assert "train is not Python, and does not say what runs it" in done.err
    assert "#!/bin/bash" in done.err
