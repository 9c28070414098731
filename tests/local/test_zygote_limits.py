"""When does a zygote refuse, or start a fresh interpreter instead: whatever would not be as good as fresh."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.runtime import linux
from tests.local.test_rank import write
from tests.local.zygotes import Runner, wait_until, zygote

pytestmark = pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A folder of third-party modules, as pip makes it."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    write(folder, "library", "VERSION = 1\n__version__ = '1.0'\n")
    return folder


@pytest.fixture
def runner(tmp_path: Path, library: Path) -> Iterator[Runner]:
    env = {**os.environ, "PYTHONPATH": str(library)}
    with zygote(tmp_path / "z", "library", env=env) as started:
        connected = started.connect()
        yield connected
        connected.close()


def environment(library: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(library), **more}


def test_modules_that_changed_on_disk_are_not_served(tmp_path: Path, library: Path, runner: Runner) -> None:
    assert runner.ask("status")["versions"] == {"library": "1.0"}
    runner.close()
    write(library, "library", "VERSION = 2\n__version__ = '2.0'\n")
    again = Runner(str(tmp_path / "z" / "socket"))

    wait_until(lambda: bool(again.ask("status")["stale"]), "the change is noticed")
    again.order(tmp_path, "train.py", env=environment(library))
    refused = again.next()
    assert (refused["op"], refused["stale"]) == ("refused", True)


@pytest.mark.parametrize(
    ("beside", "why"),
    [
        ("library.py", "library.py hides a module that is loaded"),
        ("library/__init__.py", "library hides a module that is loaded"),
        ("library/data.csv", None),
        ("os.py", None),
    ],
)
def test_a_module_beside_the_script_wins_over_one_that_is_loaded(
    tmp_path: Path, library: Path, runner: Runner, beside: str, why: str | None
) -> None:
    folder = tmp_path / "project"
    (folder / beside).parent.mkdir(parents=True)
    (folder / beside).write_text("VERSION = 'mine'\n")
    write(folder, "train", "import library\nprint(library.VERSION)\n")

    rank, started = runner.start(folder, "train.py", env=environment(library))

    assert (started["why"] or "").endswith(why or "")
    assert started["warm"] is (why is None)
    assert rank.out.read().decode().strip() == ("1" if why is None else "mine")
    assert runner.finish(rank) == 0


@pytest.mark.parametrize(
    ("name", "value", "warm"),
    [
        ("PYTHONHASHSEED", "0", False),
        ("PYTHONWARNINGS", "error", False),
        ("LD_LIBRARY_PATH", "/opt/lib", False),
        ("RANK", "1", True),
        ("OMP_NUM_THREADS", "1", True),
        ("PYTHONUNBUFFERED", "1", True),
        ("XDG_CACHE_HOME", "/cache", False),
        ("XDG_SESSION_ID", "7", True),
        ("LC_TERMINAL", "iTerm2", True),
    ],
)
def test_a_variable_that_acts_at_import_must_agree(
    tmp_path: Path, library: Path, runner: Runner, name: str, value: str, warm: bool
) -> None:
    write(tmp_path, "train", f"import os\nprint(os.environ[{name!r}])\n")

    rank, started = runner.start(tmp_path, "train.py", env=environment(library, **{name: value}))

    assert started["warm"] is warm
    assert warm or name in started["why"]
    assert rank.out.read().decode() == f"{value}\n"
    assert runner.finish(rank) == 0


def test_a_cold_start_reports_as_a_warm_one_does(tmp_path: Path, library: Path, runner: Runner) -> None:
    write(tmp_path, "train", "import library, os\nos.environ['RANK']\n")
    told = {}
    for kind, more in (("warm", {}), ("cold", {"PYTHONHASHSEED": "0"})):
        path = tmp_path / kind
        env = environment(library, RANK="0", BIREME_REPORT=str(path), **more)
        rank, _ = runner.start(tmp_path, "train.py", env=env)
        assert runner.finish(rank) == 0
        told[kind] = json.loads(path.read_text())

    assert (told["warm"].pop("warm"), told["cold"].pop("warm")) == (True, False)
    assert told["warm"] == told["cold"]
    assert told["warm"]["modules"] == ["library"]
    assert told["warm"]["read_rank"] is True


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n",
            "thread",
        ),
        ("import os\nRANK = os.environ.get('RANK')\n", "asks for its rank"),
        ("import os\nSIZE = os.environ.get('LOCAL_WORLD_SIZE', 1)\n", "asks for its rank"),
        ("import os\nPORT = os.getenv('MASTER_PORT')\n", "asks for its rank"),
    ],
    ids=["starts a thread", "asks for its rank", "asks for the ranks here", "asks for a port"],
)
def test_a_module_that_makes_forking_unsafe_is_named(
    tmp_path: Path, library: Path, source: str, reason: str
) -> None:
    write(library, "unsafe", source)

    with zygote(tmp_path / "z", "library,unsafe", env=environment(library)) as started:
        assert started.wait() == 3
        assert reason in started.complaint()
        assert not os.path.exists(started.path)
    refused = json.loads((tmp_path / "z" / "socket.refused").read_text())
    assert refused["module"] == "unsafe"
    assert reason in refused["reason"]


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path, library: Path, runner: Runner) -> None:
    runner.order(tmp_path / "absent", "train.py", env=environment(library))

    refused = runner.next()

    assert refused["op"] == "refused"
    assert "absent" in refused["error"]
    wait_until(lambda: runner.ask("status")["children"] == 0, "no process is left")


def test_nonsense_is_answered(runner: Runner) -> None:
    assert "no request" in runner.ask("dance")["error"]
    assert "malformed" in runner.ask("start", id="1")["error"]


def test_a_group_that_cannot_be_joined_is_told(tmp_path: Path, library: Path, runner: Runner) -> None:
    write(tmp_path, "train", "print('runs')\n")
    procs = str(tmp_path / "no" / "cgroup.procs")

    rank, started = runner.start(tmp_path, "train.py", env=environment(library), cgroups=(procs,))

    assert started["missing"] == [f"cgroup {procs}"]
    assert rank.out.read() == b"runs\n"


def test_limits_and_cores_are_those_of_the_order(tmp_path: Path, library: Path, runner: Runner) -> None:
    core = min(os.sched_getaffinity(0))
    write(
        tmp_path,
        "train",
        "import os, resource as r\nprint(r.getrlimit(r.RLIMIT_NOFILE), os.sched_getaffinity(0))\n",
    )

    rank, started = runner.start(
        tmp_path, "train.py", env=environment(library), limits={"RLIMIT_NOFILE": (64, 128)}, affinity=(core,)
    )

    assert started["missing"] == []
    assert rank.out.read().decode() == f"(64, 128) {{{core}}}\n"


@pytest.mark.skipif(not linux.mounts_work(), reason="private mounts are not allowed to this user here")
def test_a_mount_is_seen_by_the_rank_alone(tmp_path: Path, library: Path, runner: Runner) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("content")
    source = "import os\nprint(open('/bireme-test/a/x').read(), os.getcwd(), os.path.isdir('/usr'))\n"
    write(
        tmp_path,
        "train",
        source + f"print(open('{tmp_path}/in/b/x').read())\nopen('/bireme-test/a/y', 'w')\n",
    )
    mounts = (
        (str(tmp_path / "data"), "/bireme-test/a", True),
        (str(tmp_path / "data"), str(tmp_path / "in" / "b"), False),
    )

    rank, started = runner.start(tmp_path, "train.py", env=environment(library), mounts=mounts)

    assert started["missing"] == []
    assert rank.out.read().decode() == f"content {tmp_path} True\ncontent\n"
    assert "Read-only file system" in rank.err.read().decode()
    assert runner.finish(rank) == 1
    assert not os.path.exists("/bireme-test")
    assert not (tmp_path / "in").exists()


def test_a_rank_whose_mount_is_not_possible_is_refused(tmp_path: Path, library: Path, runner: Runner) -> None:
    write(tmp_path, "train", "print('started')\n")
    target = str(tmp_path / "in")

    rank = runner.order(
        tmp_path, "train.py", env=environment(library), mounts=((str(tmp_path / "absent"), target, False),)
    )

    refused = runner.next()
    assert refused["op"] == "refused"
    assert f"cannot mount {target}" in refused["error"]
    assert rank.out.read() == b""


@pytest.mark.parametrize("target", ["app", "app.zip"])
def test_a_module_inside_a_folder_or_an_archive_that_is_run_wins_as_well(
    tmp_path: Path, library: Path, runner: Runner, target: str
) -> None:
    app = tmp_path / "app"
    app.mkdir()
    write(app, "library", "VERSION = 'mine'\n")
    write(app, "__main__", "import library\nprint(library.VERSION)\n")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for path in app.iterdir():
            archive.write(path, path.name)

    rank, started = runner.start(tmp_path, target, env=environment(library))

    assert (rank.out.read().decode(), runner.finish(rank)) == ("mine\n", 0)
    assert started["warm"] is False


def test_a_package_that_was_installed_since_is_noticed(tmp_path: Path, library: Path, runner: Runner) -> None:
    """A module that was imported without an optional package is another one when that is there."""
    assert runner.ask("status")["stale"] is False

    (library / "optional-1.0.dist-info").mkdir()

    wait_until(lambda: bool(runner.ask("status")["stale"]), "the installation is noticed")


@pytest.mark.skipif(not linux.mounts_work(), reason="private mounts are not allowed to this user here")
def test_a_mount_over_the_loaded_modules_is_not_ignored(
    tmp_path: Path, library: Path, runner: Runner
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write(other, "library", "VERSION = 2\n")
    write(tmp_path, "train", "import library\nprint(library.VERSION)\n")

    rank, started = runner.start(
        tmp_path, "train.py", env=environment(library), mounts=((str(other), str(library), False),)
    )

    assert (rank.out.read().decode(), runner.finish(rank)) == ("2\n", 0)
    assert started["why"] == f"the mount {library} hides a module that is loaded"


def test_only_an_idle_one_retires(tmp_path: Path, library: Path) -> None:
    write(tmp_path, "waits", "import signal\nsignal.pause()\n")
    with zygote(tmp_path / "z", "library", env=environment(library)) as started:
        busy, asking = started.connect(), started.connect()
        busy.start(tmp_path, "waits.py", env=environment(library))
        assert asking.ask("retire")["op"] == "busy"
        busy.close()

        wait_until(lambda: asking.ask("retire")["op"] == "stopping", "its rank is gone and it retires")

        assert started.wait() == 0


def test_one_that_holds_more_than_it_may_is_not_served(tmp_path: Path, library: Path) -> None:
    with zygote(tmp_path / "z", "library", env=environment(library), memory=1) as started:
        assert started.wait() == 3
        assert "may hold 1" in started.complaint()
    assert json.loads((tmp_path / "z" / "socket.refused").read_text())["memory"] > 1
