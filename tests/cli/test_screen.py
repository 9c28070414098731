"""Lines of ranks, our words and the status line do not disturb each other."""

from __future__ import annotations

import io

from bireme.cli.screen import Screen

ERASE = "\r\x1b[2K"


def _screen(*, live: bool, shared: bool, columns: int = 40) -> tuple[Screen, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Screen(out, err, live=live, shared=shared, columns=lambda: columns), out, err


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

    assert err.getvalue() == f"{ERASE}Running…"
