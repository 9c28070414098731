"""A rank that hangs or crashes in C code can be asked, or says itself, where its Python code is."""

from __future__ import annotations

import json

from tests.cli.commands import Cli, until

HANGS = """
import os, time

def waits_for_the_others():
    open(f"there-{os.environ['RANK']}", "w").close()
    time.sleep(600)

def reads_data():
    open(f"there-{os.environ['RANK']}", "w").close()
    while True:
        pass

reads_data() if os.environ["RANK"] == "1" else waits_for_the_others()
"""


def test_stacks_says_where_each_rank_is_and_leaves_it_running(cli: Cli) -> None:
    cli.write("hangs.py", HANGS)
    cli.detached("hangs.py", "--workers", "2", "--name", "hangs")
    until("both ranks hang", lambda: all((cli.folder / f"there-{rank}").exists() for rank in (0, 1)))

    every = cli("stacks", "hangs")
    again = cli("stacks", "hangs", "--rank", "1", "--json")

    assert every.status == 0, every.err
    lines = every.out.splitlines()
    assert "rank 0  hangs.py:5 in waits_for_the_others()" in lines
    assert any(line.startswith("rank 1  hangs.py:") and "reads_data()" in line for line in lines)
    assert any('hangs.py", line 5 in waits_for_the_others' in line for line in lines)
    assert "bireme/runtime" not in every.out
    found = json.loads(again.out)["ranks"]
    assert [one["rank"] for one in found] == [1]
    shown = json.loads(cli("show", "hangs", "--json").out)
    assert (shown["phase"], shown["restarts"]) == ("Running", 0)


def test_stacks_of_a_program_that_is_not_python_says_so_and_does_not_harm_it(cli: Cli) -> None:
    cli.write("becomes.py", "import os\nopen('there', 'w').close()\nos.execvp('sleep', ['sleep', '600'])\n")
    cli.detached("becomes.py", "--name", "becomes")
    until("it has become a sleep", (cli.folder / "there").exists)
    until("it says so", lambda: "py-spy" in cli("stacks", "becomes").out)

    shown = json.loads(cli("show", "becomes", "--json").out)

    assert (shown["phase"], shown["restarts"]) == ("Running", 0)


def test_stacks_of_a_job_that_has_ended_says_that_no_rank_lives(cli: Cli) -> None:
    cli.write("quick.py", "print('done')\n")
    cli("run", "quick.py", "--name", "quick")

    done = cli("stacks", "quick")

    assert done.status == 2
    assert "no rank of quick is alive (Succeeded)" in done.err


def test_a_segmentation_fault_is_told_with_the_line_of_the_script(cli: Cli) -> None:
    cli.write(
        "crashes.py",
        """
        import ctypes

        def crash():
            ctypes.string_at(0)

        print("before", flush=True)
        crash()
        """,
    )

    done = cli("run", "crashes.py", "--name", "crashes", "--retries", "0")

    assert done.status == 1
    assert "was killed by SIGSEGV in crashes.py:4 in crash() (exit code 139)" in done.err
    assert "Fatal Python error: Segmentation fault" in cli("logs", "crashes").out
