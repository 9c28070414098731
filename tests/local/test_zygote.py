"""Does a zygote fork ranks that are as good as fresh, and does nothing of them ever linger."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bireme.runtime import linux, wire
from tests.local.test_rank import SCRIPTS, Ended, run, write
from tests.local.zygotes import Runner, Zygote, is_alive, wait_until, zygote

pytestmark = pytest.mark.skipif(not linux.AVAILABLE, reason="a zygote needs Linux")

# One write for a line: two processes share the pipe.
WAITS = "import os, signal\nos.write(1, b'%d\\n' % os.getpid())\nsignal.pause()\n"
FORKS = "import os\nos.fork()\n" + WAITS


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    with zygote(
        tmp_path_factory.mktemp("light") / "z", "json,multiprocessing,logging,no_such_module"
    ) as started:
        yield started


@pytest.fixture
def runner(light: Zygote) -> Iterator[Runner]:
    connected = light.connect()
    yield connected
    connected.close()


def test_says_what_it_holds(light: Zygote, runner: Runner) -> None:
    status = runner.ask("status")

    assert status["pid"] == light.process.pid
    assert status["preloaded"] == ["json", "multiprocessing", "logging"]
    assert [entry["name"] for entry in status["failed"]] == ["no_such_module"]
    assert (status["ready"], status["stale"], status["children"]) == (True, False, 0)
    assert len(status["fingerprint"]) == 64


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_cannot_tell_it_from_a_fresh_interpreter(tmp_path: Path, runner: Runner, name: str) -> None:
    write(tmp_path, name, SCRIPTS[name])

    rank, started = runner.start(tmp_path, f"{name}.py", "--lr", "0.1")

    out, err, code = rank.out.read().decode(), rank.err.read().decode(), runner.finish(rank)
    assert started["warm"] is True
    assert Ended(code, out, err) == run(tmp_path, f"{name}.py", "--lr", "0.1")


@pytest.mark.parametrize("name", ["facts", "fails", "starts_workers"])
def test_nor_can_a_module_of_a_nested_package(tmp_path: Path, runner: Runner, name: str) -> None:
    nested = tmp_path / "outer" / "inner"
    nested.mkdir(parents=True)
    write(nested, name, SCRIPTS[name])

    rank, _ = runner.start(tmp_path, "-m", f"outer.inner.{name}", "x")

    out, err, code = rank.out.read().decode(), rank.err.read().decode(), runner.finish(rank)
    assert Ended(code, out, err) == run(tmp_path, "-m", f"outer.inner.{name}", "x")


STATE = """
import io, logging, os, signal, sys, time
print(sorted(os.environ.items()))
print([(number, str(signal.getsignal(number))[:20]) for number in sorted(signal.valid_signals())])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), os.nice(0), os.sched_getscheduler(0), os.getcwd())
print(oct(os.umask(0)), os.getpgid(0) == os.getsid(0) == os.getpid(), sorted(os.listdir("/proc/self/fd")))
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream, stream.errors, stream.line_buffering, stream.write_through, type(stream.buffer))
print(sys.stdout is sys.__stdout__, time.tzname, sys.flags)
"""


@pytest.mark.parametrize("more", [{"PYTHONUNBUFFERED": ""}, {"PYTHONUNBUFFERED": "1", "TZ": "Asia/Tokyo"}])
def test_its_process_is_as_a_fresh_one(tmp_path: Path, runner: Runner, more: dict[str, str]) -> None:
    write(tmp_path, "state", STATE)
    env = {**os.environ, **more}
    mask = os.umask(0o022)
    os.umask(mask)

    rank, _ = runner.start(tmp_path, "state.py", env=env, umask=mask)

    plain = subprocess.run(
        [sys.executable, "state.py"],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    ours, theirs = rank.out.read().decode(), plain.stdout.decode()
    # The one thing that a running interpreter cannot take back: a flag that repeats the variable.
    assert ours.replace("unbuffered=1", "unbuffered=0") == theirs.replace("unbuffered=1", "unbuffered=0")
    assert runner.finish(rank) == 0


def test_a_line_arrives_at_once(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "waits", "import signal\nprint('here', end='')\nsignal.pause()\n")

    rank, _ = runner.start(tmp_path, "waits.py", env={**os.environ, "PYTHONUNBUFFERED": "1"})

    assert rank.out.read(4) == b"here"


def test_carries_the_mark_and_the_command_of_its_run(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "forks", FORKS)

    rank, started = runner.start(tmp_path, "forks.py", "--lr", env={**os.environ, wire.MARK: "mnist/3"})

    pids = {int(rank.out.readline()), int(rank.out.readline())}
    command = Path(f"/proc/{started['pid']}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert {linux.variable_of(pid, wire.MARK) for pid in pids} == {"mnist/3"}
    assert command == [os.fsencode(sys.executable), b"forks.py", b"--lr"]


def test_each_draws_numbers_of_its_own(tmp_path: Path, runner: Runner) -> None:
    write(
        tmp_path,
        "draws",
        "import random, multiprocessing as m\nprint(random.random(), m.current_process().authkey)\n",
    )

    ranks = [runner.order(tmp_path, "draws.py") for _ in range(5)]

    assert len({rank.out.read() for rank in ranks}) == 5


def test_a_signal_reaches_the_whole_group(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "forks", FORKS)
    rank, _ = runner.start(tmp_path, "forks.py")
    pids = [int(rank.out.readline()) for _ in range(2)]

    runner.tell("signal", id=rank.id, signal=int(signal.SIGTERM))

    assert runner.finish(rank) == -signal.SIGTERM
    wait_until(lambda: not any(is_alive(pid) for pid in pids), "both are gone")


def test_twenty_kills_are_twenty_exits(tmp_path: Path, runner: Runner) -> None:
    write(tmp_path, "waits", WAITS)
    for _ in range(20):
        rank, started = runner.start(tmp_path, "waits.py")
        assert int(rank.out.readline()) == started["pid"]
        assert linux.start_time(started["pid"]) == started["start_time"]

        os.kill(started["pid"], signal.SIGKILL)

        assert runner.finish(rank) == -signal.SIGKILL
    assert runner.ask("status")["children"] == 0


ESCAPES = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(1, b"%d\\n" % os.getpid())
        signal.pause()
    os._exit(0)
os.wait()
if os.fork() == 0:
    os.write(1, b"%d\\n" % os.getpid())
    signal.pause()
os.write(1, b"%d\\n" % os.getpid())
{end}
"""


@pytest.mark.parametrize("end", ["signal.pause()", "pass"], ids=["at work", "ended"])
def test_nothing_outlives_its_runner(tmp_path: Path, light: Zygote, end: str) -> None:
    write(tmp_path, "escapes", ESCAPES.format(end=end))
    runner = light.connect()
    rank, _ = runner.start(tmp_path, "escapes.py", env={**os.environ, wire.MARK: f"escapes/{end}"})
    pids = [int(rank.out.readline()) for _ in range(3)]

    runner.close()

    wait_until(lambda: not any(is_alive(pid) for pid in pids), "a daemon, a child and the rank are gone")


def test_one_runner_going_leaves_the_others_alone(tmp_path: Path, light: Zygote, runner: Runner) -> None:
    write(tmp_path, "waits", WAITS)
    other = light.connect()
    mark = {**os.environ, wire.MARK: "same/0"}
    stays, leaves = runner.start(tmp_path, "waits.py", env=mark), other.start(tmp_path, "waits.py", env=mark)

    other.close()

    wait_until(lambda: not is_alive(leaves[1]["pid"]), "the rank of the closed connection is gone")
    wait_until(lambda: runner.ask("status")["children"] == 1, "only one is left")
    assert is_alive(stays[1]["pid"])


def test_nothing_outlives_a_killed_zygote(tmp_path: Path) -> None:
    write(tmp_path, "waits", WAITS)
    with zygote(tmp_path / "z") as started:
        runner = started.connect()
        ranks = [runner.start(tmp_path, "waits.py")[0] for _ in range(3)]
        pids = [int(rank.out.readline()) for rank in ranks]

        started.process.kill()

        wait_until(lambda: not any(is_alive(pid) for pid in pids), "all ranks are gone")


@pytest.mark.parametrize("how", ["shutdown", "SIGTERM"])
def test_ends_with_its_ranks_when_told_to(tmp_path: Path, how: str) -> None:
    write(tmp_path, "waits", WAITS)
    with zygote(tmp_path / "z") as started:
        runner = started.connect()
        _, rank = runner.start(tmp_path, "waits.py")

        if how == "shutdown":
            assert runner.ask("shutdown")["op"] == "stopping"
        else:
            started.process.terminate()

        assert started.wait() == 0
        assert not is_alive(rank["pid"])
        assert not os.path.exists(started.path)


def test_ends_when_idle_and_not_before(tmp_path: Path) -> None:
    with zygote(tmp_path / "z", idle=0.2) as started:
        assert started.wait() == 0
        assert not os.path.exists(started.path)
    with zygote(tmp_path / "z", idle=0.2) as started:
        runner = started.connect()
        with pytest.raises(subprocess.TimeoutExpired):
            started.process.wait(1.0)
        assert runner.ask("status")["ready"]


def test_ends_when_its_socket_is_removed_but_serves_those_it_has(tmp_path: Path) -> None:
    write(tmp_path, "says", "print('served')\n")
    with zygote(tmp_path / "z") as started:
        runner = started.connect()

        os.unlink(started.path)

        rank, _ = runner.start(tmp_path, "says.py")
        assert (rank.out.read(), runner.finish(rank)) == (b"served\n", 0)
        runner.close()
        assert started.wait() == 0


def test_of_two_starters_one_serves(tmp_path: Path) -> None:
    with zygote(tmp_path / "z") as first, zygote(tmp_path / "z") as second:
        wait_until(lambda: first.process.poll() is not None or second.process.poll() is not None, "one ends")
        loser, winner = (first, second) if first.process.poll() is not None else (second, first)

        assert (loser.wait(), loser.complaint()) == (0, "")
        assert winner.connect().ask("status")["pid"] == winner.process.pid


def test_a_new_one_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    with zygote(tmp_path / "z") as first:
        first.connect()
        first.process.kill()
        first.wait()
        with zygote(tmp_path / "z") as second:
            wait_until(lambda: _answers(second), "the new one answers")


def test_only_its_user_can_reach_it(tmp_path: Path, light: Zygote) -> None:
    assert stat.S_IMODE(os.stat(light.path).st_mode) == 0o600
    open_to_all = tmp_path / "z"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)

    with zygote(open_to_all) as refusing:
        assert refusing.wait() == 2
        assert "must be yours alone" in refusing.complaint()


def test_a_home_with_a_long_name_is_no_obstacle(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with zygote(deep / "z") as started:
        assert started.connect().ask("status")["ready"]


def _answers(started: Zygote) -> bool:
    try:
        return bool(started.connect().ask("status")["pid"] == started.process.pid)
    except (OSError, AssertionError):
        return False
