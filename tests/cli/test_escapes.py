"""Nothing that a job says moves the cursor, retitles the window or hides a line of a terminal."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.cli.render import text
from tests.cli.commands import Cli
from tests.cli.terminals import Terminal

HOSTILE = r"\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\link\x1bPq\x1b\\\x9b2J\x9d0;c1\x9c\b\b\x1bcgone"
"""Erase, go home, title, link, device control, the same in one byte each, backspaces, reset."""
SCRIPT = f"""
import sys
print("\\x1b[31mred\\x1b[0m {HOSTILE}", flush=True)
raise ValueError("{HOSTILE}")
"""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


@pytest.fixture
def job(cli: Cli) -> str:
    name = cli.detached(cli.write("train.py", SCRIPT), "--cold", "--retries", "0")
    assert cli("wait", name).status == 1
    return name


def _shown(cli: Cli, *words: str) -> str:
    terminal = Terminal(cli, *words, columns=200)
    terminal.ended()
    terminal.close()
    return terminal.shown.replace("\r\n", "\n")


def test_what_a_script_prints_and_raises_does_not_command_the_terminal(cli: Cli, job: str) -> None:
    for verb, *options in (("show",), ("wait",), ("logs",), ("logs", "-f"), ("show", "--json")):
        shown = _shown(cli, verb, job, *options)

        assert "gone" in shown, verb
        assert not _CONTROLS.findall(_COLOUR.sub("", shown)), verb
        assert ("\x1b[31mred\x1b[0m" in shown) == (verb == "logs"), verb


def test_what_follows_a_job_at_a_terminal_is_clean_too(cli: Cli) -> None:
    cli.write("train.py", SCRIPT)

    shown = _shown(cli, "run", "train.py", "--cold", "--retries", "0")

    # The status line is ours: it is erased and drawn again.
    ours = shown.replace("\r\x1b[2K", "")
    assert "ValueError" in ours
    assert not _CONTROLS.findall(_COLOUR.sub("", ours))


def test_colours_go_where_they_are_wanted_and_a_pipe_gets_the_bytes_of_a_log(cli: Cli, job: str) -> None:
    terminal = Terminal(cli, "logs", job, NO_COLOR="1")
    terminal.ended()
    terminal.close()

    assert "red" in terminal.shown
    assert "\x1b" not in terminal.shown
    assert "\x1b[2J\x1b[1;1H" in cli("logs", job).out
    records = [json.loads(line) for line in cli("logs", job, "--json").out.splitlines()]
    # What is said to one stream may come before what was said earlier to the other.
    assert any("\x1b[2J\x1b[1;1H" in one["text"] for one in records)


def test_an_error_text_does_not_command_the_terminal(cli: Cli) -> None:
    done = cli("show", "x\x1b[2J\x9b2Jy")

    assert done.status == 2
    assert not _CONTROLS.findall(done.err)


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("a\x1b[2Jb\x1b]0;title\x07c\x1b]0;title\x1b\\d", "abcd"),
        ("a\x9b2Jb\x9d0;title\x9cc", "abc"),
        ("\x1b\x1b[0m[2J", " [2J"),
        ("\x1b]0;never ended", ""),
        ("one\ntwo\tthree", "one\ntwo\tthree"),
        ("over\rwritten\b!", "over written !"),
        ("\x1b(0lqk\x1b7", "lqk"),
        ("abc\u202edef", "abc def"),
    ],
)
def test_sequences_are_taken_out_whole(given_text: str, shown: str) -> None:
    assert text.safe(given_text) == shown


def test_a_colour_of_a_line_ends_with_it() -> None:
    assert text.log_line("\x1b[31mred", colour=True) == "\x1b[31mred\x1b[0m"
    assert text.log_line("\x1b[31mred\x1b[0m", colour=True) == "\x1b[31mred\x1b[0m"
    assert text.log_line("\x1b\x1b[31m[2J", colour=True) == " \x1b[31m[2J\x1b[0m"
    assert text.log_line("\x1b[31mred\x1b[2J", colour=False) == "red"


_PIECES = st.lists(
    st.sampled_from(["\x1b", "[", "]", "2J", "31m", "\x07", "\\", "\x9b", "P", "x", ";", "\r", "\x9c"])
    | st.text()
)


@given(_PIECES.map("".join))
def test_no_text_keeps_a_control_character(words: str) -> None:
    assert not _CONTROLS.findall(text.safe(words))
    assert not _CONTROLS.findall(_COLOUR.sub("", text.log_line(words, colour=True)))
    assert all(letter.isprintable() for letter in text.plain(words))
