"""Is any work lost, and is anything left behind, when processes die: ranks, runner, guard, all at once."""

from __future__ import annotations

import os
import signal

from bireme.model.status import Phase
from tests.local.harness import Bireme, kill, until

# Each rank leaves a helper in a session of its own behind, as data loaders and daemons do.
WAITING = """
import os, pathlib, subprocess, sys, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("ready", os.environ["RANK"], os.environ["BIREME_ATTEMPT"], flush=True)
pathlib.Path(f"ready-{os.environ['RANK']}-{os.environ['BIREME_ATTEMPT']}").touch()
while not pathlib.Path("release").exists():
    time.sleep(0.02)
"""


def begin(bireme: Bireme) -> None:
    """A job of two ranks that both run and wait to be released."""
    bireme.write("wait.py", WAITING)
    done = bireme("run", "wait.py", "--workers", "2", "--name", "job", "--detach")
    assert done.returncode == 0, done.stderr
    await_attempt(bireme, 0)


def await_attempt(bireme: Bireme, attempt: int) -> None:
    ready = [bireme.folder / f"ready-{rank}-{attempt}" for rank in (0, 1)]
    until(lambda: all(path.exists() for path in ready), f"both ranks of attempt {attempt} run")


def release(bireme: Bireme) -> None:
    (bireme.folder / "release").touch()
    until(lambda: bireme.status("job").phase.is_final, "the job ends")
    until(lambda: not bireme.run("job").is_held(), "the runner ends")


def test_a_killed_rank_restarts_the_gang_and_the_job_succeeds(bireme: Bireme) -> None:
    begin(bireme)

    kill(next(iter(bireme.ranks("job").values())))
    await_attempt(bireme, 1)
    release(bireme)

    status = bireme.status("job")
    assert (status.phase, status.attempt, status.crashes, status.evictions) == (Phase.SUCCEEDED, 1, 1, 0)
    assert bireme.leftovers() == []


def test_a_killed_runner_is_replaced_by_its_guard_and_costs_no_retry(bireme: Bireme) -> None:
    begin(bireme)
    _, runner = bireme.keepers("job")

    kill(runner)
    await_attempt(bireme, 1)
    release(bireme)

    status = bireme.status("job")
    assert (status.phase, status.attempt, status.crashes, status.evictions) == (Phase.SUCCEEDED, 1, 0, 1)
    assert bireme.leftovers() == []


def test_a_killed_guard_changes_nothing(bireme: Bireme) -> None:
    begin(bireme)
    guard, runner = bireme.keepers("job")

    kill(guard)
    until(lambda: bireme.keepers("job") == [runner], "only the runner is left")
    release(bireme)

    status = bireme.status("job")
    assert (status.phase, status.attempt, status.evictions) == (Phase.SUCCEEDED, 0, 0)
    assert bireme.leftovers() == []


def test_after_a_power_cut_the_next_command_resumes_the_job_and_says_so(bireme: Bireme) -> None:
    begin(bireme)

    # SIGSTOP first, as nobody may react to the death of another in a power cut.
    everybody = [*bireme.keepers("job"), *bireme.leftovers()]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    kill(*everybody)
    until(lambda: not bireme.run("job").is_held(), "nobody holds the run")
    listed = bireme("ps")
    await_attempt(bireme, 1)
    release(bireme)

    assert "job" in listed.stderr
    assert bireme.status("job").phase is Phase.SUCCEEDED
    assert bireme.leftovers() == []


def test_a_job_whose_rank_keeps_failing_ends_with_its_first_error_and_status_1(bireme: Bireme) -> None:
    bireme.write(
        "bad.py", "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('no such layer')\n"
    )

    done = bireme("run", "bad.py", "--workers", "2", "--retries", "1")

    assert done.returncode == 1
    assert "ValueError: no such layer" in done.stderr
    assert "rank 1" in done.stderr
    assert bireme.leftovers() == []


def test_stop_puts_a_job_aside_and_resume_lets_it_finish(bireme: Bireme) -> None:
    begin(bireme)

    stopped = bireme("stop", "job")
    assert bireme.status("job").phase is Phase.SUSPENDED
    assert bireme.leftovers() == []
    resumed = bireme("resume", "job")
    await_attempt(bireme, 1)
    release(bireme)

    assert (stopped.returncode, resumed.returncode) == (0, 0)
    status = bireme.status("job")
    assert (status.phase, status.crashes, status.evictions) == (Phase.SUCCEEDED, 0, 0)
