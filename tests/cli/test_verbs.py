"""The verbs act on real jobs, say what changed, and exit as they promise."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.cli import scripts
from tests.cli.commands import Cli, until
from tests.cli.terminals import Terminal


def _shown(cli: Cli, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(cli("show", name, "--json").out)
    return found


def _runs(cli: Cli, name: str) -> None:
    until(f"{name} runs", lambda: _shown(cli, name)["phase"] == "Running")


def test_ps_lists_what_is_active_and_what_has_ended(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.write("done.py", scripts.ALONE)
    sleeping = cli.detached("sleep.py")
    ended = cli.detached("done.py")
    cli("wait", ended)
    _runs(cli, sleeping)

    active, every = cli("ps"), cli("ps", "--all")

    header, last, row = active.out.splitlines()
    assert header.split() == ["NAME", "KIND", "PHASE", "READY", "RESTARTS", "AGE", "WHY"]
    assert row.split()[:5] == [sleeping, "PyTorchJob", "Running", "1/1", "0"]
    assert last.split()[:4] == [ended, "PyTorchJob", "Succeeded", "-"]
    assert ended in every.out
    assert "Succeeded" in every.out


def test_ps_without_jobs_says_so(cli: Cli) -> None:
    done = cli("ps")

    assert (done.status, done.out) == (0, "")
    assert "there are no jobs" in done.err


def test_a_job_that_waits_says_for_what(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cores = str(len(os.sched_getaffinity(0)))
    first = cli.detached("sleep.py", "--cpu", cores)
    _runs(cli, first)

    second = cli.detached("sleep.py", "--cpu", cores)
    until("it is queued", lambda: _shown(cli, second)["phase"] == "Queued")

    assert f"held by {first}" in cli("ps").out
    assert f"{second} waits: needs {cores} cpu" in cli("show", second).out


def test_show_tells_everything_about_a_job_that_failed(cli: Cli) -> None:
    cli.write("train.py", scripts.FAILS_ON_RANK_1)
    cli("run", "train.py", "--workers", "2", "--retries", "0", "--name", "broken")

    done = cli("show", "broken")

    assert "broken  PyTorchJob  Failed" in done.out
    assert "command    python train.py" in done.out
    for word in ("REPLICA", "CONDITION", "EVENT", "SuccessfulCreatePod", "resources"):
        assert word in done.out
    assert done.out.rstrip().endswith("ValueError: rank 1 does not want to")


def test_logs_merge_all_replicas_or_show_one(cli: Cli) -> None:
    cli.write("train.py", scripts.ALL_REDUCE)
    cli("run", "train.py", "--workers", "2", "--name", "pair")

    merged, rank, one, full = (
        cli("logs", "pair"),
        cli("logs", "pair", "--rank", "1"),
        cli("logs", "pair", "worker-0"),
        cli("logs", "pair", "pair-worker-0"),
    )

    assert sorted(merged.out.splitlines()) == ["[rank 0] rank 0 of 2 has 3", "[rank 1] rank 1 of 2 has 3"]
    assert rank.out == one.out == "rank 1 of 2 has 3\n"
    assert full.out == one.out


def test_logs_of_a_replica_that_is_not_there_names_those_that_are(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli("run", "train.py", "--name", "single")

    done = cli("logs", "single", "worker-7")

    assert done.status == 2
    assert "its only rank is 0" in done.err


def test_logs_since_and_tail_leave_out_what_is_older(cli: Cli) -> None:
    cli.write("train.py", "print('one')\nprint('two')\nprint('three')")
    cli("run", "train.py", "--name", "single")

    assert cli("logs", "single", "--tail", "1").out == "three\n"
    assert cli("logs", "single", "--since", "1h").out == "one\ntwo\nthree\n"
    assert cli("logs", "single", "--since", "2999-01-01").out == ""
    assert cli("logs", "single", "--since", "yesterday").status == 2


def test_logs_follow_until_the_job_has_ended(cli: Cli) -> None:
    cli.write("train.py", "import time\nprint('begin', flush=True)\ntime.sleep(1)\nprint('end')")
    name = cli.detached("train.py")

    done = cli("logs", "-f", name)

    assert (done.status, done.out) == (0, "begin\nend\n")


def test_logs_as_json_are_lines(cli: Cli) -> None:
    cli.write("train.py", scripts.TALKS)
    cli("run", "train.py", "--name", "single")

    records = [json.loads(line) for line in cli("logs", "single", "--json").out.splitlines()]

    assert {(one["version"], one["stream"], one["text"]) for one in records} == {
        (1, "stdout", "to stdout"),
        (1, "stderr", "to stderr"),
        (1, "stdout", "arguments"),
    }


@pytest.mark.parametrize(("script", "status"), [("print('fine')", 0), ("raise SystemExit(7)", 1)])
def test_wait_exits_with_the_status_of_the_job(cli: Cli, script: str, status: int) -> None:
    cli.write("train.py", script)
    name = cli.detached("train.py", "--retries", "0")

    assert cli("wait", name).status == status


def test_wait_gives_up_after_its_timeout(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    name = cli.detached("train.py")

    done = cli("wait", name, "--timeout", "200ms")

    assert done.status == 5
    assert f"{name} has not ended within 0.2 s" in done.err


def test_stop_and_resume_put_a_job_aside_and_back(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    name = cli.detached("train.py")
    _runs(cli, name)

    stopped = cli("stop", name)
    again = cli("stop", name)

    assert stopped.err.splitlines()[-1] == f"stopped {name}; `bireme resume {name}` resumes it"
    assert "was stopped already" in again.err
    assert _shown(cli, name)["phase"] == "Suspended"

    resumed = cli("resume", name)

    assert f"{name} resumes" in resumed.err
    _runs(cli, name)
    assert (_shown(cli, name)["attempt"], _shown(cli, name)["crashes"]) == (1, 0)


def test_what_has_ended_cannot_be_resumed_and_need_not_be_stopped(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli("run", "train.py", "--name", "single")

    resumed, stopped = cli("resume", "single"), cli("stop", "single")

    assert resumed.status == 2
    assert "has ended (Succeeded)" in resumed.err
    assert (stopped.status, stopped.err) == (0, "single had ended already: Succeeded\n")


def test_rm_asks_before_it_ends_a_job(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    name = cli.detached("train.py")

    refused = cli("rm", name)
    with Terminal(cli, "rm", name) as terminal:
        terminal.expect("End it and delete what it left? [y/N]:")
        terminal.press(b"n\n")
        declined = terminal.ended()

    assert refused.status == 2
    assert f"bireme rm --yes {name}" in refused.err
    assert declined == 0
    assert len(cli.runs()) == 1

    removed = cli("rm", "--yes", name)

    assert removed.err == f"removed {name}\n"
    assert cli.runs() == []


def test_rm_of_what_has_ended_needs_no_question(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli("run", "train.py", "--name", "single")

    done = cli("rm", "single")

    assert (done.status, cli.runs()) == (0, [])


def test_an_older_run_of_a_name_is_removed_by_its_number(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli("run", "train.py", "--name", "single")
    cli("run", "train.py", "--name", "single")

    done = cli("rm", "single#1")

    assert done.err == "removed single#1\n"
    assert cli.runs() == ["single#2"]


def test_scale_says_what_it_changed_and_refuses_what_cannot_be(cli: Cli) -> None:
    cli.write("sleep.py", scripts.SLEEPS)
    cli.write("job.yaml", "script: sleep.py\nname: crew\nworkers: 2\nkind: JAXJob\n")
    cli("run", "-f", "job.yaml", "--detach")

    assert cli("scale", "crew", "captain=1").status == 2
    assert cli("scale", "crew", "worker=x").status == 2
    assert cli("scale", "crew", "worker=1").err == "crew: worker from 2 to 1\n"
    assert _shown(cli, "crew")["total"] == 1


def test_a_job_whose_runner_died_is_resumed_by_the_next_command(cli: Cli) -> None:
    cli.write("train.py", scripts.SLEEPS)
    name = cli.detached("train.py")
    _runs(cli, name)

    for pid in _keepers(cli):
        os.kill(pid, signal.SIGKILL)
    done = cli("ps")

    assert f"resumed {name}: its runner had died" in done.err
    _runs(cli, name)


def test_a_follower_resumes_a_job_whose_runner_died(cli: Cli) -> None:
    cli.write("train.py", "import os, time\nprint(os.environ['BIREME_ATTEMPT'], flush=True)\ntime.sleep(4)")
    started = cli.start("run", "train.py", "--name", "single")
    assert started.stdout is not None
    assert started.stdout.readline() == "0\n"

    for pid in _keepers(cli):
        os.kill(pid, signal.SIGKILL)
    out, err = started.communicate(timeout=60)

    assert started.returncode == 0, err
    assert "resumed single: its runner had died" in err
    assert out == "1\n"


def test_check_says_what_is_valid_and_what_is_missing_here(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("job.yaml", "script: train.py\nname: fine\nworkers: 2\n")
    cli.write("absent.yaml", "script: absent.py\nname: absent\n")

    fine, absent = cli("check", "-f", "job.yaml"), cli("check", "absent.yaml")

    assert (fine.status, fine.out) == (0, "job.yaml:1: PyTorchJob fine is valid (1 master, 1 worker)\n")
    assert absent.status == 0
    assert "there is no script absent.py" in absent.out
    assert cli.runs() == []


def test_check_reads_each_file_by_itself_and_tells_all_that_is_wrong_at_once(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    for name in ("a.yaml", "b.yaml"):
        cli.write(name, "script: train.py\nname: same\n")
    for name in ("c.yaml", "d.yaml"):
        cli.write(name, "script: train.py\nworkers: 0\n")

    fine, bad = cli("check", "a.yaml", "b.yaml"), cli("check", "a.yaml", "c.yaml", "d.yaml")

    assert (fine.status, len(fine.out.splitlines())) == (0, 2)
    assert bad.status == 2
    assert "c.yaml:2:" in bad.err
    assert "d.yaml:2:" in bad.err


def test_check_lists_which_files_go_with_a_script_to_a_cluster(cli: Cli) -> None:
    cli.write("train.py", "print(1)")
    cli.write(".env", "PASSWORD=1")
    cli.write("big.bin", "x")
    cli.write(".gitignore", "*.bin")

    listed = cli("check", "train.py")
    found = json.loads(cli("check", "train.py", "--json").out)["scripts"][0]

    assert listed.status == 0
    assert "never sent, because their names are those of keys or credentials:\n  .env\n" in listed.out
    assert (found["sent"], found["left_out"]) == ([".gitignore", "train.py"], ["big.bin"])
    assert cli("check", "absent.py").status == 2


def test_render_prints_a_manifest_that_runs(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli.write("job.yaml", "script: train.py\nname: mnist\n")

    rendered = cli("render", "-f", "job.yaml")
    ran = cli("run", "-f", "-", stdin=rendered.out)

    assert rendered.out.startswith("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n")
    assert (ran.status, ran.out) == (0, "nobody but me\n")


def test_explain_knows_every_code_offline(cli: Cli) -> None:
    listed = cli("explain")
    codes = [line.split()[0] for line in listed.out.splitlines()]

    assert "no-room" in codes
    for code in codes:
        assert cli("explain", code).out.startswith(f"{code} (exit status ")
    assert cli("explain", "no-rom").err.endswith("did you mean no-room?\n")
    assert cli("explain", "5").out.startswith("unreachable")
    assert [line for line in cli("explain", "3").out.splitlines() if "(exit status 3)" in line] == [
        "disk-full (exit status 3)",
        "no-room (exit status 3)",
    ]


def test_doctor_says_what_the_machine_has_without_importing_frameworks(cli: Cli) -> None:
    begin = time.monotonic()

    done = cli("doctor")

    assert done.status == 0
    for word in (
        "cpu ",
        "memory ",
        "GPUs ",
        "cgroups ",
        "mounts ",
        "MPI ",
        "python ",
        "frameworks ",
        "runs ",
    ):
        assert word in done.out
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(cli: Cli, shell: str) -> None:
    done = cli("completion", shell)

    assert done.status == 0
    assert "_BIREME_COMPLETE" in done.out


def test_a_shell_completes_verbs_and_names(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    cli("run", "train.py", "--name", "single")

    verbs = cli(_BIREME_COMPLETE="bash_complete", COMP_WORDS="bireme re", COMP_CWORD="1")
    names = cli(_BIREME_COMPLETE="bash_complete", COMP_WORDS="bireme show si", COMP_CWORD="2")

    assert verbs.out.split() == ["plain,resume", "plain,render"]
    assert names.out.split() == ["plain,single"]


def _keepers(cli: Cli) -> list[int]:
    """The guard and the runner of every run: they were forked by a command, and write to its log."""
    found = []
    for process in os.listdir("/proc"):
        if process.isdecimal():
            try:
                if os.readlink(f"/proc/{process}/fd/1").startswith(str(cli.home)):
                    found.append(int(process))
            except OSError:
                continue
    return found
