"""`bireme run` starts real ranks, shows what they print, and ends as they did."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.cli import scripts
from tests.cli.commands import Cli, until


def test_two_workers_reduce_over_the_address_they_are_given(cli: Cli) -> None:
    cli.write("train.py", scripts.ALL_REDUCE)

    done = cli("run", "train.py", "--workers", "2")

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == ["[rank 0] rank 0 of 2 has 3", "[rank 1] rank 1 of 2 has 3"]
    assert "Succeeded in " in done.err


def test_the_job_is_named_after_the_script_with_four_letters(cli: Cli) -> None:
    cli.write("My Train.py", scripts.ALONE)

    done = cli("run", "My Train.py", "--detach")

    stem, _, letters = done.out.strip().rpartition("-")
    assert (stem, len(letters)) == ("my-train", 4)
    assert done.out.strip() == done.out.strip().lower()


def test_one_replica_prints_without_a_prefix(cli: Cli) -> None:
    cli.write("train.py", scripts.TALKS)

    done = cli("run", "train.py")

    assert sorted(done.out.splitlines()) == ["arguments", "to stderr", "to stdout"]


def test_words_after_two_dashes_go_to_the_script(cli: Cli) -> None:
    cli.write("train.py", scripts.TALKS)

    done = cli("run", "train.py", "--", "--lr", "0.1", "--workers", "9")

    assert "arguments --lr 0.1 --workers 9" in done.out


def test_an_option_of_the_script_names_the_fix(cli: Cli) -> None:
    cli.write("train.py", scripts.TALKS)

    done = cli("run", "train.py", "--lr", "0.1", "--workers", "2")

    assert done.status == 2
    assert "bireme run train.py --workers 2 -- --lr 0.1" in done.err
    assert cli.runs() == []


def test_a_failed_rank_is_told_last_with_its_traceback(cli: Cli) -> None:
    cli.write("train.py", scripts.FAILS_ON_RANK_1)

    done = cli("run", "train.py", "--workers", "2", "--retries", "0")

    assert done.status == 1
    told = done.err.splitlines()
    assert told[-1] == "ValueError: rank 1 does not want to"
    assert "Traceback (most recent call last):" in told
    assert any("rank 1 on " in line and "failed: ValueError: rank 1" in line for line in told)
    assert any("bireme logs train-" in line and line.endswith("--rank 1") for line in told)


def test_a_retry_that_succeeds_is_a_success(cli: Cli) -> None:
    cli.write(
        "train.py",
        """
        import os
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise RuntimeError("not yet")
        print("now")
        """,
    )

    done = cli("run", "train.py", "--retries", "1")

    assert done.status == 0
    assert "RuntimeError: not yet; attempt 2 begins" in done.err
    assert "now" in done.out


def test_a_killed_rank_shows_its_signal_and_its_last_lines(cli: Cli) -> None:
    cli.write(
        "train.py",
        """
        import os, signal, sys
        print("about to go", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
    )

    done = cli("run", "train.py", "--retries", "0")

    assert done.status == 1
    assert "was killed by SIGKILL (exit code 137)" in done.err
    assert "    about to go" in done.err


def test_ranks_that_never_talk_to_each_other_are_told_so(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)

    done = cli("run", "train.py", "--workers", "2")

    assert done.status == 0
    assert "train.py ran 2 independent copies: it never asked for its rank" in done.err
    assert "torch.distributed.init_process_group" in done.err
    assert len(done.err.splitlines()) <= 6


def test_detach_returns_at_once_and_the_job_goes_on(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)

    done = cli("run", "train.py", "--detach")

    name = done.out.strip()
    assert f"bireme logs -f {name}" in done.err
    until("it runs", lambda: json.loads(cli("show", name, "--json").out)["phase"] == "Running")


def test_a_module_runs_as_python_m_would(cli: Cli) -> None:
    (cli.folder / "pkg").mkdir()
    (cli.folder / "pkg" / "__init__.py").write_text("")
    cli.write("pkg/train.py", "print('module', __name__)")

    done = cli("run", "-m", "pkg.train")

    assert (done.status, done.out) == (0, "module __main__\n")


def test_variables_reach_the_rank(cli: Cli) -> None:
    cli.write("train.py", "import os; print(os.environ['GREETING'])")

    done = cli("run", "train.py", "--env", "GREETING=hello = world")

    assert done.out == "hello = world\n"


def test_a_variable_without_a_value_has_that_of_the_shell(cli: Cli) -> None:
    cli.write("train.py", "import os; print(os.environ['GREETING'])")

    done = cli("run", "train.py", "--env", "GREETING", GREETING="from the shell")

    assert (done.status, done.out) == (0, "from the shell\n")


def test_a_manifest_runs_in_its_own_folder_under_its_own_name(cli: Cli) -> None:
    (cli.folder / "sub").mkdir()
    cli.write("sub/train.py", "import os; print(os.getcwd())")
    cli.write("sub/job.yaml", "script: train.py\nname: mnist\n")

    first = cli("run", "-f", "sub/job.yaml")
    second = cli("run", "-f", "sub/job.yaml")

    assert first.out == f"{cli.folder / 'sub'}\n"
    assert "started mnist\n" in first.err
    assert "started mnist#2\n" in second.err


def test_a_manifest_on_standard_input_runs_in_the_current_folder(cli: Cli) -> None:
    cli.write("train.py", "import os; print(os.getcwd())")

    done = cli("run", "-f", "-", stdin="script: train.py\n")

    assert done.out == f"{cli.folder}\n"


def test_every_job_of_a_manifest_runs_and_each_line_says_whose_it_is(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("jobs.yaml", "script: train.py\nname: one\n---\nscript: train.py\nname: two\n")

    done = cli("run", "-f", "jobs.yaml")

    assert done.status == 0
    assert sorted(done.out.splitlines()) == ["[one rank 0] nobody but me", "[two rank 0] nobody but me"]
    assert "one: Succeeded in " in done.err
    assert "two: Succeeded in " in done.err


def test_one_of_several_jobs_that_fails_decides(cli: Cli) -> None:
    cli.write("good.py", scripts.ALONE)
    cli.write("bad.py", "raise SystemExit(3)")
    cli.write("jobs.yaml", "script: bad.py\nname: bad\nretries: 0\n---\nscript: good.py\nname: good\n")

    done = cli("run", "-f", "jobs.yaml")

    assert done.status == 1
    assert "bad failed: rank 0 on " in done.err
    assert "exit code 3" in done.err


def test_nothing_starts_if_one_of_several_jobs_cannot(cli: Cli) -> None:
    cli.write("good.py", scripts.ALONE)
    cli.write("jobs.yaml", "script: good.py\nname: good\n---\nscript: absent.py\nname: absent\n")

    done = cli("run", "-f", "jobs.yaml")

    assert done.status == 2
    assert "absent.py" in done.err
    assert cli.runs() == []


def test_a_name_can_be_given_to_the_only_job_of_a_manifest(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("job.yaml", "script: train.py\nname: mnist\n")

    done = cli("run", "-f", "job.yaml", "--name", "other")

    assert "started other" in done.err


def test_json_prints_the_job_at_its_end_and_nothing_else(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)

    done = cli("run", "train.py", "--json")

    found = json.loads(done.out)
    assert found["version"] == 1
    assert found["jobs"][0]["phase"] == "Succeeded"


def test_a_progress_bar_collapses_to_its_last_state(cli: Cli) -> None:
    cli.write(
        "train.py",
        r"""
        import sys
        for step in range(100):
            sys.stdout.write(f"\rstep {step}")
            sys.stdout.flush()
        print()
        """,
    )

    done = cli("run", "train.py")

    assert done.out == "step 99\n"


def test_nobody_reads_and_nobody_is_there_so_the_job_is_stopped(cli: Cli) -> None:
    cli.write(
        "train.py", "import time\nwhile True:\n    print('x' * 1000, flush=True)\n    time.sleep(0.001)"
    )
    started = cli.start("run", "train.py", "--name", "talker")
    assert started.stdout is not None
    assert started.stdout.readline().startswith("xxx")

    started.stdout.close()

    assert started.wait(60) == 130
    assert started.stderr is not None
    assert "stopped talker" in started.stderr.read()
    started.stderr.close()


def test_closed_streams_do_no_harm(cli: Cli) -> None:
    cli.write("train.py", "open('ran', 'w').close()")

    ended = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m bireme.cli run train.py <&- >&- 2>&-"],
        cwd=cli.folder,
        env=cli.environ,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 0
    assert Path(cli.folder, "ran").exists()
