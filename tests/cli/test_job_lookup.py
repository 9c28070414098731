"""What a person types all day: a name's beginning or none, how far it is, what to throw away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import click
import pytest

from bireme.cli.main import VERBS, bireme
from tests.cli import scripts
from tests.cli.commands import WORDS, Cli, until
from tests.cli.terminals import CTRL_C, Terminal

REPORTS = """
    import time
    import bireme

    with bireme.init() as run:
        for step, _ in run.steps(list(range(40)), start=run.restore()):
            run.report(step, accuracy=step / 40, loss=1 / (step + 1))
            if step == 24:
                time.sleep(600)
"""


def _ends(cli: Cli, *names: str) -> None:
    """Runs a job of each name to its end."""
    cli.write("done.py", scripts.ALONE)
    cli.write("jobs.yaml", "---\n".join(f"script: done.py\nname: {name}\n" for name in names))
    done = cli("run", "-f", "jobs.yaml")
    assert done.status == 0, done.err


def _name_may_be_left_out(verb: str) -> bool:
    found = bireme.get_command(click.Context(bireme), verb)
    assert found is not None
    arguments = [one for one in found.params if isinstance(one, click.Argument)]
    return any(not one.required and "NAME" in (one.metavar or "") for one in arguments)


def _phase(cli: Cli, name: str) -> str:
    return str(json.loads(cli("show", name, "--json").out)["phase"])


# How far it is


def test_ps_and_show_say_how_far_a_job_is(cli: Cli) -> None:
    cli.write("train.py", REPORTS)
    name = cli.detached("train.py")
    until("it reported", lambda: "25/40" in cli("ps").out)

    listed, shown = cli("ps"), cli("show", name)
    found = json.loads(cli("ps", "--json").out)["jobs"][0]["progress"]

    header, row = listed.out.splitlines()[:2]
    assert "PROGRESS" in header.split()
    assert "25/40" in row
    assert "loss 0.04" in row
    assert "progress   25 of 40 steps (62 %)" in shown.out
    assert "metric     loss 0.04" in shown.out
    assert (found["step"], found["total"], found["metric"], found["value"]) == (24, 40, "loss", 0.04)


@pytest.mark.parametrize("columns", [80, 40])
def test_ps_and_show_fit_the_terminal(cli: Cli, columns: int) -> None:
    cli.write("train.py", REPORTS)
    name = cli.detached("train.py", "--name", "a-training-with-a-name")
    until("it reported", lambda: "25/40" in cli("ps").out)

    for words in (["ps"], ["show", name]):
        with Terminal(cli, *words, columns=columns) as terminal:
            assert terminal.ended() == 0
        lines = terminal.shown.splitlines()
        # A path is never broken, so that it can be copied.
        assert all(len(line) <= columns for line in lines if "/" not in line), terminal.shown
        assert "loss 0.04" in terminal.shown


def test_numbers_that_a_manifest_finds_in_the_output_are_progress(cli: Cli) -> None:
    cli.write("train.py", "for step in range(30):\n    print(f'step {step} loss: {1 / (step + 1)}')")
    cli.write("job.yaml", "script: train.py\nname: printed\nmetrics: [loss]\n")
    assert cli("run", "-f", "job.yaml").status == 0

    found = json.loads(cli("show", "printed", "--json").out)["progress"]

    assert (found["step"], found["metric"]) == (29, "loss")


# Names


def test_a_unique_beginning_names_a_job(cli: Cli) -> None:
    _ends(cli, "stage3-abcd", "stage4-efgh")

    assert cli("logs", "stage3").out == "nobody but me\n"
    assert cli("show", "stage3-a").out.startswith("stage3-abcd  ")
    assert cli("wait", "stage4").status == 0
    assert cli("tensorboard", "stage3", "--logdir-only").status == 0
    assert "stage3-abcd" in cli("checkpoints", "stage3").err


def test_an_ambiguous_beginning_lists_what_it_may_mean(cli: Cli) -> None:
    _ends(cli, "stage3-abcd", "stage3-efgh")

    done = cli("show", "stage3")

    assert done.status == 2
    assert "2 jobs begin with stage3: stage3-efgh, stage3-abcd" in done.err


def test_an_exact_name_wins_over_a_longer_one(cli: Cli) -> None:
    _ends(cli, "stage3", "stage3-efgh")

    assert cli("show", "stage3").out.startswith("stage3  ")


def test_rm_by_a_beginning_asks_first_and_says_what_it_removes(cli: Cli) -> None:
    _ends(cli, "stage3-abcd")

    refused = cli("rm", "stage3")
    with Terminal(cli, "rm", "stage3") as terminal:
        terminal.expect("stage3 means stage3-abcd (Succeeded). Delete what it left? [y/N]:")
        terminal.press(b"y\n")
        assert terminal.ended() == 0

    assert refused.status == 2
    assert "there is no job stage3; so begins stage3-abcd" in refused.err
    assert "removed stage3-abcd" in terminal.shown
    assert cli.runs() == []


def test_rm_with_yes_takes_a_full_name_only(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.detached("sleep.py", "--name", "mnist-tf")

    refused = [cli("rm", *words) for words in (("--yes", "mnist"), ("mnist",))]

    assert [one.status for one in refused] == [2, 2]
    assert all("mnist-tf" in one.err for one in refused)
    assert cli.runs() == ["mnist-tf#1"]


# No name


def test_the_newest_job_is_the_default(cli: Cli) -> None:
    _ends(cli, "first", "second")

    shown, logged, waited = cli("show"), cli("logs"), cli("wait")

    assert shown.out.startswith("second  ")
    assert (logged.out, logged.err) == ("nobody but me\n", "newest job: second\n")
    assert (waited.status, waited.err.splitlines()[0]) == (0, "newest job: second")


def test_stop_and_resume_without_a_name_take_the_newest_that_can_be(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.detached("sleep.py", "--name", "sleeper")
    until("it runs", lambda: _phase(cli, "sleeper") == "Running")
    _ends(cli, "later")

    stopped = cli("stop")
    again = cli("stop")
    resumed = cli("resume")

    assert stopped.err.splitlines()[0] == "newest active job: sleeper"
    assert (again.status, "there is no active job" in again.err) == (2, True)
    assert resumed.err.splitlines()[0] == "newest stopped or failed job: sleeper"


def test_resume_without_a_name_takes_the_job_that_has_just_failed(cli: Cli) -> None:
    cli.write("fail.py", "x = (")
    assert cli("run", "fail.py", "--name", "broken").status == 1

    resumed = cli("resume")

    assert resumed.err.splitlines()[0] == "newest stopped or failed job: broken"
    assert resumed.status == 0


@pytest.mark.parametrize("verb", [verb for verb in VERBS if _name_may_be_left_out(verb)])
def test_every_verb_whose_name_may_be_left_out_says_which_job_it_takes(cli: Cli, verb: str) -> None:
    done = cli(verb)

    assert done.status == 2, (verb, done.err)
    assert "no job is named" in done.err


def test_stacks_without_a_name_takes_the_newest_active_job(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.detached("sleep.py", "--name", "sleeper")
    until("it runs", lambda: _phase(cli, "sleeper") == "Running")
    _ends(cli, "later")

    done = cli("stacks")

    assert done.status == 0, done.err
    assert done.err.splitlines()[0] == "newest active job: sleeper"


# Too many


def test_ps_lists_the_last_that_ended_and_counts_the_rest(cli: Cli) -> None:
    _ends(cli, *(f"done-{number}" for number in range(7)))

    done = cli("ps")

    assert [line.split()[0] for line in done.out.splitlines()[1:]] == [f"done-{n}" for n in (6, 5, 4, 3, 2)]
    assert done.err == "2 more have ended: bireme ps --all; to delete what they left: bireme rm --ended\n"
    assert len(cli("ps", "--all").out.splitlines()) == 8
    assert json.loads(cli("ps", "--json").out)["more"] == 2


def test_rm_ended_removes_all_that_ended_and_nothing_else(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.detached("sleep.py", "--name", "sleeper")
    cli.detached("sleep.py", "--name", "aside")
    cli("stop", "aside")
    _ends(cli, "one", "two", "three")

    refused = cli("rm", "--ended")
    kept = cli("rm", "--ended", "--older", "1d", "--yes")
    with Terminal(cli, "rm", "--ended") as terminal:
        terminal.expect("3 ended jobs (")
        terminal.expect("Delete what they left? [y/N]:")
        terminal.press(b"y\n")
        assert terminal.ended() == 0

    assert (refused.status, "bireme rm --ended --yes" in refused.err) == (2, True)
    assert (kept.status, "nothing is removed" in kept.err) == (0, True)
    assert "removed 3 ended jobs (" in terminal.shown
    assert cli.runs() == ["aside#1", "sleeper#1"]


def test_rm_ended_can_be_narrowed(cli: Cli) -> None:
    for name in ("one", "two", "three"):  # jobs of one file end in any order
        _ends(cli, name)
    Path(cli.home, "runs", "two", "1", "logs", "large").write_bytes(bytes(3 << 20))

    assert "removed 1 ended job (" in cli("rm", "--ended", "--yes", "--larger", "2Mi").err
    assert "removed 1 ended job (" in cli("rm", "--ended", "--yes", "--keep", "1").err
    assert cli.runs() == ["three#1"]
    assert cli("rm", "--older", "1d").status == 2
    refused = cli("rm", "--keep", "0", "three")
    assert (refused.status, "--keep is for --ended" in refused.err) == (2, True), refused.err
    assert cli("rm", "--ended", "three").status == 2
    assert "did you mean 1d?" in cli("rm", "--ended", "--yes", "--older", "1").err
    assert "did you mean 10Gi?" in cli("rm", "--ended", "--yes", "--larger", "10").err
    assert cli.runs() == ["three#1"]
    assert cli("rm", "--ended", "--on", "kubernetes").status == 2


def test_rm_ended_spares_what_an_active_job_was_started_from(cli: Cli) -> None:
    _ends(cli, "origin", "other")
    cli.write("sleep.py", scripts.SLEEPS)
    origin = Path(cli.home, "runs", "origin", "1", "checkpoints")
    cli.detached("sleep.py", "--name", "continued", "--env", f"BIREME_FROM={origin}@120")

    done = cli("rm", "--ended", "--yes")

    assert "removed 1 ended job (" in done.err
    assert cli.runs() == ["continued#1", "origin#1"]


def test_limits_remove_what_is_beyond_them_but_never_checkpoints(cli: Cli) -> None:
    _ends(cli, "one", "two")
    folder = Path(cli.home, "runs", "one", "1", "checkpoints", "step-1")
    folder.mkdir(parents=True)

    done = cli("run", "done.py", "--name", "three", BIREME_KEEP_RUNS="0")
    bad = cli("run", "done.py", "--name", "four", BIREME_KEEP_SIZE="much")

    assert done.status == 0
    assert "removed 1 ended job (" in done.err
    assert ", as keep_runs says\n" in done.err
    assert "three#1" in cli.runs()
    assert "one#1" in cli.runs()
    assert "two#1" not in cli.runs()
    assert (bad.status, "BIREME_KEEP_SIZE" in bad.err) == (2, True)
    assert "four#1" not in cli.runs()


def test_rm_goes_on_after_a_name_that_is_not_there(cli: Cli) -> None:
    _ends(cli, "one", "two")

    done = cli("rm", "one", "nosuch", "two")

    assert done.status == 2
    assert "there is no run nosuch" in done.err
    assert ("removed one\n" in done.err, "removed two\n" in done.err) == (True, True)
    assert cli.runs() == []


# Pipes, clocks and terminals


@pytest.mark.parametrize("follow", [[], ["-f"]])
def test_logs_into_a_pipe_that_is_closed_end_quietly(cli: Cli, follow: list[str]) -> None:
    cli.write("train.py", "for n in range(20_000):\n    print('line', n)")
    assert cli("run", "train.py", "--name", "long", "--json").status == 0

    logs = subprocess.Popen(
        [*WORDS, "logs", "long", *follow],
        cwd=cli.folder, env=cli.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert logs.stdout is not None
    assert logs.stderr is not None
    first = logs.stdout.readline()
    logs.stdout.close()
    err = logs.stderr.read()

    assert (first, err) == ("line 0\n", "")
    assert logs.wait(60) == 128 + signal.SIGPIPE


def test_a_few_lines_into_a_pipe_that_is_closed_end_as_quietly(cli: Cli) -> None:
    _ends(cli, "short")

    for words in (["logs", "short"], ["show", "short"], ["ps", "--json"]):
        done = subprocess.run(
            ["bash", "-c", 'set -o pipefail; "$@" | true; echo ${PIPESTATUS[0]}', "-", *WORDS, *words],
            cwd=cli.folder, env=cli.environ, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

        assert done.stdout.strip() in ("0", "141"), words
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


def test_ran_leaves_out_the_time_in_the_queue(cli: Cli) -> None:
    cores = str(len(os.sched_getaffinity(0)))
    cli.write("sleep.py", scripts.SLEEPS)
    cli.write("done.py", scripts.ALONE)
    cli.detached("sleep.py", "--cpu", cores, "--name", "holder")
    until("it runs", lambda: _phase(cli, "holder") == "Running")
    cli.detached("done.py", "--cpu", cores, "--name", "queued")
    until("it is queued", lambda: _phase(cli, "queued") == "Queued")
    begin = time.monotonic()
    until("it has waited a while", lambda: time.monotonic() - begin > 2.0)
    cli("rm", "--yes", "holder")

    waited = cli("wait", "queued")
    found = json.loads(cli("show", "queued", "--json").out)

    assert found["ran"] < found["completed"] - found["created"] - 2.0
    assert f"Succeeded in {found['ran']:.1f} s" in waited.err


@pytest.mark.parametrize("verb", [["run", "sleep.py", "--workers", "2", "--name", "sleeper"], ["logs", "-f"]])
def test_a_follower_of_a_job_that_is_removed_elsewhere_says_so(cli: Cli, verb: list[str]) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    if verb[0] == "logs":
        cli.detached("sleep.py", "--name", "sleeper")
    follower = cli.start(*verb)
    assert follower.stdout is not None
    assert "asleep" in follower.stdout.readline()

    assert cli("rm", "--yes", "sleeper").status == 0
    _, err = follower.communicate(timeout=60)

    assert err.splitlines()[-1] == "sleeper was removed"


def test_ctrl_c_leaves_no_status_line_on_the_terminal(cli: Cli) -> None:
    cli.write("train.py", "import time\nprint('a long line ' * 20, flush=True)\ntime.sleep(600)")

    with Terminal(cli, "run", "train.py", "--workers", "2", "--name", "pair", columns=60) as terminal:
        terminal.expect("pair  Running 2/2")
        terminal.press(CTRL_C)
        terminal.expect("Ctrl-C again")
        assert terminal.ended() == 130

    left = [line for line in screen(terminal.shown, 60) if line.startswith("pair  Running")]
    assert left == []


def screen(shown: str, columns: int) -> list[str]:
    """What a terminal of that width shows in the end; only what Bireme uses is understood."""
    lines, row, column = [""], 0, 0
    text = shown.replace("\r\x1b[2K", "\x00")
    for letter in text:
        if letter == "\x00":
            lines[row], column = "", 0
        elif letter == "\n":
            row, column = row + 1, 0
        elif letter == "\r":
            column = 0
        else:
            if column == columns:
                row, column = row + 1, 0
            while len(lines) <= row:
                lines.append("")
            lines[row] = lines[row][:column].ljust(column) + letter + lines[row][column + 1 :]
            column += 1
        while len(lines) <= row:
            lines.append("")
    return lines
