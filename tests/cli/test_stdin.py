"""A job with one worker has its user's standard input, as `python` would."""

from __future__ import annotations

import subprocess

from tests.cli.commands import PATIENCE, WORDS, Cli, until
from tests.cli.terminals import CTRL_C, CTRL_D, Terminal

GREETS = "name = input('Name? ')\nprint('hello', name)\n"


def test_a_line_that_is_typed_reaches_input_and_its_prompt_is_shown_at_once(cli: Cli) -> None:
    cli.write("greets.py", GREETS)

    with Terminal(cli, "run", "greets.py") as terminal:
        terminal.expect("Name? ")
        terminal.press(b"Ada\n")
        terminal.expect("hello Ada\n")
        status = terminal.ended()

    assert status == 0
    assert terminal.shown.count("Name? ") == 1


def test_pdb_of_a_single_rank_talks_to_the_user(cli: Cli) -> None:
    cli.write("train.py", "import pdb\nanswer = 42\npdb.set_trace()\nprint('after', answer + 1)\n")

    with Terminal(cli, "run", "train.py") as terminal:
        terminal.expect("(Pdb) ")
        terminal.press(b"p answer\n")
        terminal.expect("\n42\n(Pdb) ")
        terminal.press(b"c\n")
        terminal.expect("after 43")
        status = terminal.ended()

    assert status == 0


def test_ctrl_d_ends_the_input(cli: Cli) -> None:
    cli.write("reads.py", "import sys\nprint('ready', flush=True)\nprint(sys.stdin.read().split())\n")

    with Terminal(cli, "run", "reads.py") as terminal:
        terminal.expect("ready")
        terminal.press(b"a\nb\n" + CTRL_D)
        terminal.expect("['a', 'b']")
        status = terminal.ended()

    assert status == 0


def test_a_rank_reads_the_end_once_nobody_follows_it(cli: Cli) -> None:
    cli.write(
        "waits.py",
        """
        import pathlib
        try:
            input("still there? ")
        except EOFError:
            pathlib.Path("nobody").touch()
        """,
    )

    with Terminal(cli, "run", "waits.py", "--name", "waits") as terminal:
        terminal.expect("still there? ")
        terminal.press(CTRL_C)
        status = terminal.ended()

    until("the rank has read the end", (cli.folder / "nobody").exists)
    assert status == 130
    assert cli("wait", "waits").status == 0


def test_what_is_not_read_by_the_rank_stays_for_the_shell(cli: Cli) -> None:
    cli.write("silent.py", "import time\nprint('started', flush=True)\ntime.sleep(1)\n")
    words = " ".join(WORDS)

    with Terminal(cli, program=("sh", "-c", f"{words} run silent.py; read line; echo got $line")) as terminal:
        terminal.expect("started")
        terminal.press(b"typed-ahead\n")
        terminal.expect("got typed-ahead")


def test_a_pipe_is_the_standard_input_of_a_single_rank(cli: Cli) -> None:
    cli.write("adds.py", "print(sum(int(input()) for _ in range(2)))\n")

    done = cli("run", "adds.py", stdin="3\n4\n")

    assert (done.status, done.out) == (0, "7\n"), done.err


def test_a_new_attempt_reads_a_file_from_its_beginning(cli: Cli) -> None:
    cli.write("flaky.py", "import os, sys\nprint(input())\nsys.exit(os.environ['BIREME_ATTEMPT'] == '0')\n")
    cli.write("input.txt", "first\nsecond\n")

    with open(cli.folder / "input.txt") as file:
        done = subprocess.run(
            [*WORDS, "run", "flaky.py"],
            cwd=cli.folder,
            env=cli.environ,
            stdin=file,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "first\nfirst\n"


def test_several_ranks_are_told_who_gets_standard_input(cli: Cli) -> None:
    cli.write("asks.py", "input('Name? ')\n")

    done = cli("run", "asks.py", "--workers", "2", "--retries", "0", stdin="Ada\n")

    assert done.status == 1
    assert "EOFError" in done.err
    assert "standard input is only given to a job with one worker: bireme run asks.py --workers 1" in done.err
