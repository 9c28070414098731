"""A user who detaches is told what continues; signals and closed windows stop the job."""

from __future__ import annotations

import json
import signal

from bireme.cli import follow
from tests.cli import scripts
from tests.cli.commands import Cli, until
from tests.cli.terminals import CTRL_C, Terminal


def _phase(cli: Cli, name: str) -> str:
    return str(json.loads(cli("show", name, "--json").out)["phase"])


def test_ctrl_c_once_leaves_the_job_running_and_says_how_to_come_back(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)

    with Terminal(cli, "run", "train.py", "--name", "sleeper") as terminal:
        terminal.expect("asleep")
        terminal.press(CTRL_C)
        terminal.expect("sleeper continues in the background. Follow it with `bireme logs -f sleeper`.")
        terminal.expect("Ctrl-C again within 2 s stops it.")
        status = terminal.ended()

    assert status == 130
    assert _phase(cli, "sleeper") == "Running"


def test_ctrl_c_twice_stops_the_job(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)

    with Terminal(cli, "run", "train.py", "--name", "sleeper") as terminal:
        terminal.expect("asleep")
        terminal.press(CTRL_C)
        terminal.expect("Ctrl-C again")
        terminal.press(CTRL_C)
        terminal.expect("stopped sleeper; `bireme resume sleeper` resumes it")
        status = terminal.ended()

    assert status == 130
    assert _phase(cli, "sleeper") == "Suspended"


def test_a_closed_window_stops_the_job(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)

    with Terminal(cli, "run", "train.py", "--name", "sleeper") as terminal:
        terminal.expect("asleep")
        terminal.close()
        terminal.process.wait(60)

    assert _phase(cli, "sleeper") == "Suspended"


def test_a_detached_job_survives_its_window(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)

    with Terminal(cli, "run", "train.py", "--name", "sleeper", "--detach") as terminal:
        assert terminal.ended() == 0

    until("it runs", lambda: _phase(cli, "sleeper") == "Running")


def test_sigterm_stops_the_job(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    started = cli.start("run", "train.py", "--name", "sleeper")
    assert started.stdout is not None
    assert started.stdout.readline() == "asleep\n"

    started.send_signal(signal.SIGTERM)
    _, err = started.communicate(timeout=60)

    assert started.returncode == 130
    assert "stopped sleeper" in err
    assert _phase(cli, "sleeper") == "Suspended"


def test_an_interrupt_without_a_terminal_stops_the_job(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    started = cli.start("run", "train.py", "--name", "sleeper")
    assert started.stdout is not None
    assert started.stdout.readline() == "asleep\n"

    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=60)

    assert started.returncode == 130
    assert "stopped sleeper" in err


def test_ctrl_c_ends_logs_quietly_and_the_job_goes_on(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    name = cli.detached("train.py")

    with Terminal(cli, "logs", "-f", name) as terminal:
        terminal.expect("asleep")
        terminal.press(CTRL_C)
        status = terminal.ended()

    assert status == 130
    assert "Traceback" not in terminal.shown
    assert _phase(cli, name) == "Running"


def test_a_terminal_shows_one_status_line_that_is_rewritten(cli: Cli) -> None:
    cli.write(
        "train.py",
        """
        import os, time
        print("a line of rank", os.environ["RANK"], flush=True)
        time.sleep(2)
        """,
    )

    with Terminal(cli, "run", "train.py", "--workers", "2", "--name", "pair", columns=60) as terminal:
        status = terminal.ended()

    assert status == 0
    drawn = [part for part in terminal.shown.split("\r\x1b[2K") if part.startswith("pair  ")]
    assert any("Running 2/2  0:01  a line of rank" in line for line in drawn)
    assert all(len(line.partition("\n")[0]) < 60 for line in drawn)
    assert "Succeeded in " in terminal.shown.splitlines()[-1]


def test_prefixes_are_coloured_on_a_terminal_unless_the_user_minds(cli: Cli) -> None:
    cli.write("train.py", scripts.ALL_REDUCE)

    with Terminal(cli, "run", "train.py", "--workers", "2") as colourful:
        colourful.ended()
    with Terminal(cli, "run", "train.py", "--workers", "2", NO_COLOR="1") as plain:
        plain.ended()

    assert "m[rank 1]\x1b[0m rank 1 of 2" in colourful.shown
    assert "[rank 1] rank 1 of 2" in plain.shown
    assert "\x1b[3" not in plain.shown


def test_one_rank_has_the_terminal_for_a_debugger_and_no_status_line(cli: Cli) -> None:
    cli.write(
        "train.py",
        """
        import os
        print(os.environ["BIREME_TERMINAL"])
        """,
    )

    with Terminal(cli, "run", "train.py") as terminal:
        terminal.ended()

    assert "/dev/pts/" in terminal.shown
    assert "\x1b[2K" not in terminal.shown


def test_a_breakpoint_of_a_single_rank_talks_to_the_user(cli: Cli) -> None:
    cli.write("train.py", "answer = 42\nbreakpoint()\nprint('after', answer + 1)\n")

    with Terminal(cli, "run", "train.py") as terminal:
        terminal.expect("(Pdb)")
        terminal.press(b"p answer\n")
        terminal.expect("\n42\n")
        terminal.press(b"c\n")
        terminal.expect("after 43")
        status = terminal.ended()

    assert status == 0


def test_a_second_ctrl_c_counts_while_it_is_still_being_offered() -> None:
    signals = follow.Signals()
    signals.note(signal.SIGINT, None)
    pressed = signals.interrupts
    signals.note(signal.SIGINT, None)  # before anybody waits for it

    assert follow.thinks_again(signals, pressed)
