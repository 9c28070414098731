"""What runs a script is told by its name, its first line and its first bytes."""

from __future__ import annotations

import pytest

from bireme.core.scripts import interpreters
from bireme.core.scripts.interpreters import Launch, by_content, by_name


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("train.py", None),
        ("train", None),
        ("train.sh", ("sh",)),
        ("run.bash", ("bash",)),
        ("run.zsh", ("zsh",)),
        ("run.ksh", ("ksh",)),
    ],
)
def test_the_ending_of_a_name_tells_the_program(path: str, words: tuple[str, ...] | None) -> None:
    assert by_name(path) == Launch(words)


def test_a_notebook_is_rejected_with_the_command_that_makes_it_a_script() -> None:
    launch = by_name("my notebook.ipynb")

    assert launch.words is None
    assert launch.wrong == "my notebook.ipynb is a notebook, and only scripts are run"
    assert launch.hint == ("jupyter nbconvert --to script 'my notebook.ipynb' && bireme run 'my notebook'.py")
    assert by_content("my notebook.ipynb", b"#!/bin/sh\n", is_executable=True) == launch


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"#!/bin/bash\n", ("/bin/bash",)),
        (b"#! /usr/bin/perl -w\nprint 1", ("/usr/bin/perl", "-w")),
        (b"#!/usr/bin/env ruby\n", ("ruby",)),
        (b"#!/usr/bin/env -S node --trace\n", ("node", "--trace")),
        (b"#!/usr/bin/env python3\n", None),
        (b"#!/opt/python3.12/bin/python3.12 -u\n", None),
        (b"#!/bin/it's\n", ("/bin/it's",)),
    ],
)
def test_the_first_line_names_the_program(head: bytes, words: tuple[str, ...] | None) -> None:
    assert by_content("launch", head, is_executable=False) == Launch(words)


def test_the_name_of_a_python_script_counts_more_than_its_first_line() -> None:
    assert by_content("train.py", b"#!/bin/bash\n", is_executable=True) == Launch()


@pytest.mark.parametrize("head", [b"#!\n", b"#!   ", b"#!/usr/bin/env\n", b"#!/usr/bin/env -S\n"])
def test_a_first_line_without_a_program_is_rejected(head: bytes) -> None:
    assert by_content("launch", head, is_executable=True).wrong == (
        "launch begins with #!, and names no program after it"
    )


def test_a_compiled_program_runs_itself_where_it_may() -> None:
    assert by_content("a tool", b"\x7fELF\x02", is_executable=True) == Launch(())
    assert by_content("a tool", b"\x7fELF\x02", is_executable=False) == Launch(
        wrong="a tool may not be executed", hint="chmod +x 'a tool' && bireme run 'a tool'"
    )


def test_a_file_without_an_ending_is_python_if_it_reads_as_python() -> None:
    assert by_content("train", b"import torch\n", is_executable=False) == Launch()
    assert by_content("train", b"torchrun train.py --nproc 2\n", is_executable=False) == Launch(
        wrong="train is not Python, and does not say what runs it",
        hint="begin it with a line such as #!/bin/bash",
    )


def test_a_file_that_was_read_in_part_is_taken_for_python() -> None:
    head = b"x = (\n".ljust(interpreters.HEAD)

    assert by_content("train", head, is_executable=False) == Launch()
    assert by_content("train", head[:-1], is_executable=False).wrong
