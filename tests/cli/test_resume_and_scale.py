"""A failed job can be resumed from its checkpoint; the number of ranks can be changed while a job runs."""

from __future__ import annotations

import json
import re
from typing import Any

from bireme.runs import machine
from tests.cli import scripts
from tests.cli.commands import Cli, until

SAVES_AND_FAILS = """
    import os
    import bireme

    with bireme.init(every=1) as run:
        start = run.restore()
        print("begins with step", int(start), flush=True)
        for step in range(start, 8):
            run.report(step, loss=1.0)
            run.save(step, weights=[float(step)])
            if step == 4 and not os.path.exists("mended"):
                run._checkpoints.wait()
                raise ValueError("the labels are wrong")
"""
GANG = """
    import os
    import time
    from pathlib import Path

    attempt, rank, size = (os.environ[name] for name in ("BIREME_ATTEMPT", "RANK", "WORLD_SIZE"))
    Path(f"rank-{attempt}-{rank}-of-{size}").touch()
    while not Path("finish").exists():
        time.sleep(0.05)
"""


def _shown(cli: Cli, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cli("show", name, "--json").out)
    return found


def _holds(shown: dict[str, Any]) -> dict[str, bool]:
    return {one["type"]: one["status"] for one in shown["conditions"]}


def test_nothing_says_after_a_failure_that_a_checkpoint_exists(cli: Cli) -> None:
    cli.write("train.py", SAVES_AND_FAILS)

    done = cli("run", "train.py", "--name", "job", "--retries", "0")

    assert done.status == 1
    where = str(cli.home / "runs" / "job" / "1" / "checkpoints")
    assert re.search(
        rf"Its newest checkpoint is of step 4, saved .* ago in {re.escape(where)}\n"
        r"Continue from it: bireme resume job\n",
        done.err,
    ), done.err
    assert done.err.rstrip().endswith("ValueError: the labels are wrong")
    assert re.search(r"checkpoint +step 4, .* ago, ", cli("show", "job").out)
    assert _shown(cli, "job")["checkpoint"]["step"] == 4


def test_a_failed_job_that_is_resumed_begins_with_its_last_checkpoint(cli: Cli) -> None:
    cli.write("train.py", SAVES_AND_FAILS)
    assert cli("run", "train.py", "--name", "job", "--retries", "0").status == 1
    (cli.folder / "mended").touch()

    done = cli("resume", "job")

    assert (done.status, "job resumes from step 4" in done.err) == (0, True), done.err
    assert cli("wait", "job").status == 0
    begins = [line for line in cli("logs", "job").out.splitlines() if line.startswith("begins")]
    assert begins == ["begins with step 0", "begins with step 5"]
    shown = _shown(cli, "job")
    assert _holds(shown) == {"Created": True, "Failed": False, "Running": False, "Succeeded": True}
    assert (shown["attempt"], shown["phase"], shown["why"]) == (1, "Succeeded", "")
    again = cli("resume", "job")
    assert (again.status, "job has ended (Succeeded)" in again.err) == (2, True)


def test_a_job_that_fails_again_after_it_was_resumed_says_so_and_can_be_resumed_again(cli: Cli) -> None:
    cli.write("train.py", SAVES_AND_FAILS)
    cli("run", "train.py", "--name", "job", "--retries", "0")
    cli.write("train.py", "raise ValueError('not mended')")

    assert cli("resume", "job").status == 0
    assert cli("wait", "job").status == 1
    assert "ValueError: not mended (2 attempts)" in cli("ps", "-a").out
    cli.write("train.py", scripts.ALONE)
    assert cli("resume", "job").status == 0
    assert cli("wait", "job").status == 0


def test_an_older_run_is_not_resumed_beside_a_newer_one_of_its_name(cli: Cli) -> None:
    cli.write("train.py", "raise ValueError('no')")
    cli("run", "train.py", "--name", "job", "--retries", "0")
    cli.write("train.py", scripts.SLEEPS)
    cli.detached("train.py", "--name", "job")

    done = cli("resume", "job#1")

    assert (done.status, "job#2 is still active" in done.err) == (2, True), done.err


def test_two_runs_of_one_name_never_go_on_together(cli: Cli) -> None:
    cli.write("train.py", "raise ValueError('no')")
    for _ in range(2):
        cli("run", "train.py", "--name", "job", "--retries", "0")
    cli.write("train.py", scripts.SLEEPS)
    assert cli("resume", "job#1").status == 0

    resumed, anew = cli("resume", "job#2"), cli("run", "train.py", "--name", "job")

    for done in (resumed, anew):
        assert (done.status, "job#1 is still active" in done.err) == (2, True), done.err
        assert "`bireme rm job#1`" in done.err
    assert cli.runs() == ["job#1", "job#2"]


def _await(cli: Cli, *names: str) -> None:
    until(f"{names} are there", lambda: all((cli.folder / name).exists() for name in names))


def test_a_rank_that_scaling_adds_never_joins_the_gang(cli: Cli) -> None:
    cli.write("train.py", GANG)
    name = cli.detached("train.py", "--workers", "2")
    _await(cli, "rank-0-0-of-2", "rank-0-1-of-2")

    done = cli("scale", name, "3")

    assert (done.status, f"{name}: from 2 to 3 ranks" in done.err) == (0, True), done.err
    _await(cli, "rank-1-0-of-3", "rank-1-1-of-3", "rank-1-2-of-3")
    assert not list(cli.folder.glob("rank-0-*-of-3"))
    shown = _shown(cli, name)
    assert (shown["crashes"], shown["evictions"], shown["total"]) == (0, 0, 3)
    (cli.folder / "finish").touch()
    assert cli("wait", name).status == 0


def test_two_ranks_of_a_script_cannot_be_scaled_to_one(cli: Cli) -> None:
    cli.write("train.py", GANG)
    name = cli.detached("train.py", "--workers", "2")
    _await(cli, "rank-0-0-of-2", "rank-0-1-of-2")

    assert cli("scale", name, "workers=1").status == 0
    _await(cli, "rank-1-0-of-1")
    assert cli("scale", name, "worker=2").status == 0
    _await(cli, "rank-2-0-of-2", "rank-2-1-of-2")

    refused = cli("scale", name, "0")
    assert (refused.status, "at least 1 rank" in refused.err) == (2, True), refused.err
    refused = cli("scale", name, "master=2")
    assert (refused.status, f"bireme scale {name} 2" in refused.err) == (2, True), refused.err


def test_scaling_up_without_room_does_not_stop_what_runs(cli: Cli) -> None:
    half = f"{machine.capacity().cpu // 2}m"
    cli.write("train.py", GANG)
    for name in ("other", "job"):
        cli.detached("train.py", "--name", name, "--cpu", half)
        until(f"{name} runs", lambda name=name: _shown(cli, name)["phase"] == "Running")  # type: ignore[misc]

    refused = cli("scale", "job", "2")

    assert refused.status == 2
    assert "job would stop and wait if it had 2 ranks: it needs " in refused.err
    assert "held by other (" in refused.err
    assert "bireme stop job, then scale and resume it" in refused.err
    shown = _shown(cli, "job")
    assert (shown["phase"], shown["attempt"], shown["total"]) == ("Running", 0, 1)
    for words in (("stop", "job"), ("scale", "job", "2"), ("resume", "job")):
        assert cli(*words).status == 0
    until("it waits in the queue", lambda: _shown(cli, "job")["phase"] == "Queued")
