"""Lines of ranks, our words and the status line do not disturb each other."""

from __future__ import annotations

import io

from bireme.cli.screen import Screen

ERASE = "\r\x1b[2K"


def _screen(
    *, live: bool, shared: bool, columns: int = 40, prompts: bool = False
) -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, live=live, shared=shared, columns=lambda: columns, prompts=prompts)
    return screen, out, err


def test_a_pipe_gets_plain_lines_and_no_status() -> None:
    screen, out, err = _screen(live=False, shared=False)

    screen.status("Running")
    screen.lines(["one", "two"])
    screen.say("ours")
    screen.clear()

    assert (out.getvalue(), err.getvalue()) == ("one\ntwo\n", "ours\n")


def test_the_status_line_is_rewritten_in_place_and_only_if_it_changed() -> None:
    screen, _, err = _screen(live=True, shared=True)

    screen.status("Running 1/2")
    screen.status("Running 1/2")
    screen.status("Running 2/2")
    screen.clear()

    assert err.getvalue() == f"{ERASE}Running 1/2{ERASE}Running 2/2{ERASE}"


def test_lines_go_above_the_status_line() -> None:
    screen, out, err = _screen(live=True, shared=True)

    screen.status("Running")
    screen.lines(["a line"])

    assert out.getvalue() == "a line\n"
    assert err.getvalue() == f"{ERASE}Running{ERASE}{ERASE}Running"


def test_the_status_line_is_cut_to_the_terminal_and_cannot_be_coloured_by_a_rank() -> None:
    screen, _, err = _screen(live=True, shared=True, columns=10)

    screen.status("\x1b[31mRunning 2/2\nand more")

    assert err.getvalue() == f"{ERASE}Runnin…"


def test_a_prompt_is_shown_once_and_the_line_that_it_becomes_continues_it() -> None:
    screen, out, _ = _screen(live=False, shared=True, prompts=True)

    screen.prompt("Name? ")
    screen.prompt("Name? ")
    screen.lines(["Name? hello Ada", "next"])

    assert out.getvalue() == "Name? hello Ada\nnext\n"


def test_a_bar_is_rewritten_in_one_row_and_ends_whole() -> None:
    screen, out, _ = _screen(live=False, shared=True, columns=10, prompts=True)

    screen.prompt("1/9 #")
    screen.prompt("2/9 ##########")
    screen.prompt("2/9 ##########")
    screen.lines(["9/9 ##########"])

    assert out.getvalue() == f"1/9 #{ERASE}2/9 ####…{ERASE}9/9 ##########\n"


def test_our_words_begin_a_line_of_their_own_after_a_prompt() -> None:
    screen, out, err = _screen(live=False, shared=True, prompts=True)

    screen.prompt("Name? ")
    screen.say("continues in the background")

    assert (out.getvalue(), err.getvalue()) == ("Name? ", "\ncontinues in the background\n")
