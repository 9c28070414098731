"""A job that a rank of another job starts is a job of its own; any other child of a rank ends with it."""

from __future__ import annotations

import os

import pytest

from bireme.backends.local.warm.zygote_pool import ZygotePool
from bireme.model.status import Phase
from bireme.runs import directory
from tests.local.harness import Bireme, until

INNER = """
import os, pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.05)
print("mine:", sorted(name for name in os.environ if name.startswith("BIREME_OUTER")))
"""

OUTER = """
import json, os, pathlib, subprocess, sys, time
{imports}
here = pathlib.Path.cwd()
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
(here / "child").write_text(str(child.pid))
command = [{bireme!r}, "run", "inner.py", "--name", "inner", "--workers", "1"]
if {follow!r}:
    subprocess.Popen(command)
    while not (here / "go").exists():
        time.sleep(0.05)
else:
    subprocess.run([*command, "--detach"], check=True)
"""


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def outer(bireme: Bireme, *, follow: bool, imports: str = "") -> None:
    command = os.path.join(bireme.environ["VIRTUAL_ENV"], "bin", "bireme")
    bireme.write("inner.py", INNER)
    bireme.write("outer.py", OUTER.format(bireme=command, follow=follow, imports=imports))


def inner_runs(bireme: Bireme) -> bool:
    run = directory.newest(bireme.home, "inner")
    return run is not None and run.status().phase is Phase.RUNNING


def inner_succeeds(bireme: Bireme, keepers: list[int]) -> None:
    """The inner job still has the runner that it had, and ends by itself."""
    assert len(keepers) == 2
    assert bireme.keepers("inner") == keepers
    (bireme.folder / "go").touch()
    done = bireme("wait", "inner")
    assert done.returncode == 0, done.stderr
    assert bireme.status("inner").evictions == 0


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_job_started_from_inside_a_job_does_not_die_with_it(bireme: Bireme, warm: bool) -> None:
    outer(bireme, follow=False, imports="import tqdm" if warm else "")
    if warm:
        bireme.write("warming.py", "import tqdm\n")
        lesson = ZygotePool(bireme.home)
        assert bireme("run", "warming.py", "--name", "warming").returncode == 0
        until(lambda: len(lesson.living()) == 1, "a zygote is ready")
        python, script = bireme.run("warming").context().python, str(bireme.folder / "outer.py")
        lesson.learn(python, script, lesson.learnt(python, str(bireme.folder / "warming.py")))

    done = bireme("run", "outer.py", "--name", "outer", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert bireme.was_warm("outer") == [warm]
    until(lambda: inner_runs(bireme), "the inner job runs")
    keepers = bireme.keepers("inner")

    child = int((bireme.folder / "child").read_text())
    until(lambda: not is_alive(child), "an ordinary child of the rank has ended with it")
    until(lambda: not bireme.run("outer").is_held(), "the outer job is at rest")
    inner_succeeds(bireme, keepers)


def test_a_job_that_a_rank_follows_survives_the_stop_of_the_outer_job(bireme: Bireme) -> None:
    outer(bireme, follow=True)
    done = bireme("run", "outer.py", "--name", "outer", "--workers", "1", "--detach")
    assert done.returncode == 0, done.stderr
    until(lambda: inner_runs(bireme), "the inner job runs")
    keepers = bireme.keepers("inner")

    stopped = bireme("rm", "--yes", "outer")

    assert stopped.returncode == 0, stopped.stderr
    child = int((bireme.folder / "child").read_text())
    until(lambda: not is_alive(child), "an ordinary child of the rank has ended with it")
    inner_succeeds(bireme, keepers)


def test_what_the_user_sets_reaches_the_ranks(bireme: Bireme) -> None:
    bireme.environ["BIREME_CHECKPOINTS"] = str(bireme.folder / "kept")
    bireme.write("train.py", "import os\nprint('kept in', os.environ['BIREME_CHECKPOINTS'])\n")

    done = bireme("run", "train.py")

    assert f"kept in {bireme.folder / 'kept'}" in done.stdout


def test_a_nested_job_runs_beside_files_that_have_the_names_of_our_modules(bireme: Bireme) -> None:
    bireme.write("msgspec.py", "raise ImportError('of the user')\n")
    outer(bireme, follow=False)

    done = bireme("run", "outer.py", "--name", "outer")

    assert done.returncode == 0, done.stderr
    until(lambda: inner_runs(bireme), "the inner job runs, and no later command had to start it")
    inner_succeeds(bireme, bireme.keepers("inner"))
