"""Do jobs that do not fit together take turns, whole gangs at a time."""

from __future__ import annotations

from bireme.model.status import Phase
from tests.local.harness import Bireme, until

# A gang that is half started would wait here for its other half for ever.
MEETING = """
import os, pathlib, time
job = os.environ["BIREME_REPLICA"].split("-")[0]
rank, size = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
pathlib.Path(f"{job}-{rank}").touch()
while not all(pathlib.Path(f"{job}-{one}").exists() for one in range(size)):
    time.sleep(0.01)
while pathlib.Path("hold").exists():
    time.sleep(0.01)
"""


def test_a_second_job_that_wants_all_cores_waits_says_why_and_then_runs(bireme: Bireme) -> None:
    bireme.write("meet.py", MEETING)
    hold = bireme.write("hold", "")
    everything = ("--workers", "2", "--cpu", "64", "--detach")

    first = bireme("run", "meet.py", "--name", "first", *everything)
    second = bireme("run", "meet.py", "--name", "second", *everything)
    until(lambda: bireme.status("second").phase is Phase.QUEUED, "the second job waits")
    listed = bireme("ps")
    hold.unlink()
    ended = bireme("wait", "first", "second")

    assert (first.returncode, second.returncode, ended.returncode) == (0, 0, 0), ended.stderr
    row = next(line for line in listed.stdout.splitlines() if line.startswith("second"))
    assert "Queued" in row
    assert "cpus" in row
    assert "first" in row
    assert bireme.status("second").phase is Phase.SUCCEEDED


def test_ten_jobs_at_once_all_finish(bireme: Bireme) -> None:
    bireme.write("meet.py", MEETING)
    names = [f"job{number}" for number in range(10)]

    for name in names:
        done = bireme("run", "meet.py", "--workers", "2", "--name", name, "--detach")
        assert done.returncode == 0, done.stderr
    ended = bireme("wait", *names)

    assert ended.returncode == 0, ended.stderr
    assert {bireme.status(name).phase for name in names} == {Phase.SUCCEEDED}


def test_more_gpus_than_the_machine_has_are_refused_with_status_3_and_nothing_is_left(bireme: Bireme) -> None:
    bireme.write("meet.py", MEETING)

    done = bireme("run", "meet.py", "--gpu", "99")

    assert done.returncode == 3
    assert "needs 99 GPUs" in done.stderr
    assert not (bireme.home / "runs").exists() or not list((bireme.home / "runs").glob("*/*"))
