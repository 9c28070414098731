"""The guard is forked before the job is known: it keeps nothing of the command, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bireme.cli.__main__ import starts_a_job_here
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import RunId
from tests.cli import scripts
from tests.cli.commands import Cli, until


def _of_home(home: Path) -> dict[int, str]:
    """Our own processes of this home, and what each of them executes."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            environ = (process / "environ").read_bytes().split(b"\0")
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"BIREME_HOME={home}".encode() in environ and "bireme.cli" in words:
            found[int(process.name)] = words
    return found


def _open_files(pid: int) -> dict[int, str]:
    folder = Path(f"/proc/{pid}/fd")
    return {int(entry.name): os.readlink(entry) for entry in folder.iterdir()}


def _field(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))


def _session(pid: int) -> tuple[int, int]:
    """The session of a process and its terminal, 0 for none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[3]), int(fields[4])


def _started(cli: Cli) -> tuple[str, list[int]]:
    """Starts a job that sleeps; answers its id, and its guard and runner."""
    cli.write("sleeper.py", scripts.SLEEPS)
    id = cli.detached("sleeper.py", "--cold")
    until("the rank runs", lambda: "asleep" in cli("logs", id).out)
    return id, sorted(_of_home(cli.home))


def test_the_guard_keeps_nothing_that_the_command_had_open(cli: Cli) -> None:
    id, pids = _started(cli)

    assert len(pids) == 2
    for pid in pids:
        held = _open_files(pid)
        log = str(cli.home / "runs" / id / "1" / "runner.log")
        assert (held[0], held[1], held[2]) == (os.devnull, log, log)
        elsewhere = [path for path in held.values() if path.startswith("/") and str(cli.home) not in path]
        assert set(elsewhere) <= {os.devnull}
    guard = next(pid for pid in pids if int(_field(pid, "PPid")) not in pids)
    assert not [path for path in _open_files(guard).values() if path.startswith(("pipe:", "socket:"))]


def test_the_lock_of_the_run_passes_to_no_program(cli: Cli) -> None:
    id, pids = _started(cli)

    locks = [
        (pid, number)
        for pid in pids
        for number, path in _open_files(pid).items()
        if path == str(cli.home / "runs" / id / "1" / "lock")
    ]
    assert len(locks) == 1  # the runner's
    pid, number = locks[0]
    flags = Path(f"/proc/{pid}/fdinfo/{number}").read_text().split("flags:")[1].split()[0]
    assert int(flags, 8) & os.O_CLOEXEC


def test_the_guard_and_the_runner_have_no_terminal_and_ignore_its_signals(cli: Cli) -> None:
    _, pids = _started(cli)

    ignored = {signal.SIGINT, signal.SIGHUP}
    for pid in pids:
        mask = int(_field(pid, "SigIgn"), 16)
        assert all(mask >> (number - 1) & 1 for number in ignored)
        session, terminal = _session(pid)
        assert session in pids
        assert terminal == 0


@pytest.mark.parametrize("words", [("run", "absent.py"), ("run", "train.py", "--gpu", "99")])
def test_a_command_that_starts_nothing_leaves_nothing(cli: Cli, words: tuple[str, ...]) -> None:
    cli.write("train.py", scripts.ALONE)

    done = cli(*words)

    assert done.status != 0
    until("the standby has ended", lambda: not _of_home(cli.home))
    assert cli.runs() == []


@pytest.mark.parametrize(
    ("words", "environ", "expected"),
    [
        (["run", "train.py", "--workers", "2"], {}, True),
        (["run", "train.py"], {"BIREME_ON": "local"}, True),
        (["run", "train.py"], {"BIREME_ON": "kubernetes"}, False),
        (["run", "train.py", "--on", "kubernetes"], {}, False),
        (["run", "train.py", "--on=kubernetes"], {}, False),
        (["run", "--help"], {}, False),
        (["ps"], {}, False),
        ([], {}, False),
    ],
)
def test_the_command_forks_a_standby_first_where_it_starts_a_job_here(
    words: list[str], environ: dict[str, str], expected: bool
) -> None:
    assert starts_a_job_here(words, environ) is expected


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_job_runs_where_a_standard_stream_is_closed(cli: Cli, closed: int) -> None:
    cli.write("train.py", scripts.ALONE)

    words = [sys.executable, "-m", "bireme.cli", "run", "train.py", "--name", "closed", "--cold"]
    closing = f'exec "$@" {closed}{"<" if closed == 0 else ">"}&-'

    ended = subprocess.run(
        ["sh", "-c", closing, "sh", *words],
        cwd=cli.folder,
        env=cli.environ,
        capture_output=True,
        timeout=60,
    )

    assert ended.returncode == 0, ended.stderr
    assert cli("wait", "closed").status == 0


def test_a_killed_command_takes_its_standby_along(cli: Cli) -> None:
    program = "from bireme.runner import standby; standby.prepare(); print('ready', flush=True); input()"
    command = subprocess.Popen(
        [sys.executable, "-c", program, "bireme.cli"],
        env=cli.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"
    assert len(_of_home(cli.home)) == 2

    command.kill()
    command.communicate()

    until("the standby has ended", lambda: not _of_home(cli.home))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_job_whose_standby_was_killed_runs_all_the_same(cli: Cli, when: str) -> None:
    cli.write("train.py", scripts.ALONE)
    program = f"""
import os, signal, sys
from pathlib import Path
from bireme import Client
from bireme.runner import standby

def children():
    return [int(pid) for pid in Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split()]

standby.prepare()
[child] = children()
if {when == "after"}:
    # It cannot take what is handed over, and dies with the lock of the run in its socket.
    os.kill(child, signal.SIGSTOP)
else:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
handle = Client().run("train.py", warm=False)
if {when == "after"}:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(handle.wait(50).phase)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cli.folder,
        env=cli.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.stdout == "Succeeded\n", ended.stderr


def test_a_job_is_held_at_every_instant_of_the_handover(cli: Cli) -> None:
    cli.write("train.py", scripts.ALONE)
    program = """
import os, signal
from pathlib import Path
from bireme import Client
from bireme.runner import standby

standby.prepare()
[child] = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
while os.readlink(f"/proc/{child}/fd/1") != os.devnull:  # or it would hold the pipe that this test reads
    pass
os.kill(child, signal.SIGSTOP)
print(Client().run("train.py", name="held", warm=False).id, child, flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cli.folder,
        env=cli.environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    id, child = done.stdout.split()
    run = RunDirectory(cli.home, RunId(id, 1))

    # The command has ended, and its standby has not taken the run yet.
    assert run.is_held()
    os.kill(int(child), signal.SIGCONT)

    until("the job has ended", lambda: run.status().phase.is_final)
    assert cli("wait", id).status == 0


def test_what_was_printed_before_the_fork_is_printed_once(cli: Cli) -> None:
    program = "print('once', end=''); from bireme.runner import standby; standby.prepare()"

    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=cli.environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert ended.stdout == "once"


def test_the_rank_gets_the_folder_environment_and_umask_of_the_command(cli: Cli) -> None:
    cli.write(
        "train.py",
        """
        import os
        print(os.getcwd(), os.environ["LC_ALL"], os.environ["MINE"], oct(os.umask(0)))
        """,
    )

    ended = subprocess.run(
        ["sh", "-c", f"umask 027; {sys.executable} -m bireme.cli run train.py --cold"],
        cwd=cli.folder,
        env={**cli.environ, "LC_ALL": "C.UTF-8", "MINE": "käse"},
        capture_output=True,
        text=True,
    )

    assert ended.stdout.split() == [str(cli.folder), "C.UTF-8", "käse", "0o27"], ended.stderr
