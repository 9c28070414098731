"""Restarts a runner that dies: the guard, a parent that does nothing else.

`bireme run` forks the guard, the guard forks the runner, and the guard's own death changes nothing: what is
left dead is found by the next command. The runner is forked without exec, which saves the start of another
interpreter; the lock of the run travels with it, so that at no instant the run is without a holder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import msgspec

from bireme.backends.local import cgroups, processes
from bireme.backends.local.preflight import provenance
from bireme.backends.local.processes import Input
from bireme.runner import control, loop
from bireme.runs import runner_log
from bireme.runs.directory import RunDirectory
from bireme.runs.run_files import RunId
from bireme.runs.storage import files
from bireme.runs.storage.locks import FileLock

_MOST_DEATHS = 10
"""Runners that may die within a minute; more is a fault that another runner would not cure."""
_WINDOW = 60.0


def start(run: RunDirectory, lock: FileLock, *, stdin: bool = False) -> None:
    """Start the guard and the runner of a run that this process holds; `stdin` passes on what it reads."""
    if threading.active_count() > 1 or processes.MARK in os.environ:
        # In an interpreter of its own: a fork of a threaded program may hang in its locks. And a fork of a
        # rank would carry the mark of the rank's run, by which everything that a rank left is found and
        # killed: this job is not part of that one.
        # Not from the working folder: a file of the user's may have the name of a module that we import.
        words = [sys.executable, "-P", "-m", "bireme.runner.guard"]
        words += [str(run.home), run.id.name, str(run.id.number), str(lock.fd)]
        environ = processes.without_marks(os.environ)
        subprocess.run(words, pass_fds=[lock.fd], start_new_session=True, env=environ, check=False)
        lock.close()
        return
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        lock.close()
        return
    # Nothing of the command may run twice: whatever happens, this process ends here.
    try:
        os.setsid()
        become(run, lock, 0 if stdin else None)
    finally:
        os._exit(0)


def become(run: RunDirectory, lock: FileLock, stdin: int | None) -> None:
    """Be the guard of a run until it is over; `stdin` is the descriptor that its rank reads."""
    try:
        # Before the streams are replaced: the input may be one of them.
        given = None if stdin is None else processes.given_input(stdin)
        _detach(run)
        _guard(run, lock, given)
    except BaseException:
        runner_log.say(traceback.format_exc())


def main(arguments: list[str]) -> None:
    """Run `python -m bireme.runner.guard HOME NAME NUMBER LOCK`."""
    home, name, number, descriptor = arguments
    run = RunDirectory(Path(home), RunId(name, int(number)))
    os.set_inheritable(int(descriptor), False)
    if os.fork():
        # An orphan from here on, so that the guard does not end with a rank that started it.
        os._exit(0)
    cgroups.leave()
    _detach(run)
    _guard(run, FileLock(int(descriptor)), None)


def _guard(run: RunDirectory, lock: FileLock | None, stdin: Input | None) -> None:
    deaths: list[float] = []
    while lock is not None:
        pid = os.fork()
        if pid == 0:
            try:
                asyncio.run(loop.serve(run, stdin, time, random.SystemRandom()))
                os._exit(0)
            except BaseException:
                runner_log.say(traceback.format_exc())
            finally:
                # In any case here: further up, this process would take itself for the guard.
                os._exit(70)
        lock.close()
        # Git takes its time to say which commit the code is, so the idle guard asks it, not the runner.
        with contextlib.suppress(Exception):
            if not (path := run.path / "code.json").exists():
                context = run.context()
                code = provenance.commit(Path(context.cwd), context.code)
                files.replace_quickly(path, msgspec.json.encode(code))
        _, status = os.waitpid(pid, 0)
        exit_code = os.waitstatus_to_exitcode(status)
        if exit_code == 0:
            # A command that resumed the run while its runner was leaving found it held, and started none.
            lock = run.hold() if control.needs_runner(run) else None
            continue
        now = time.monotonic()
        deaths = [death for death in deaths if now - death < _WINDOW] + [now]
        runner_log.say(f"the runner ended with {exit_code}; starting another")
        if len(deaths) > _MOST_DEATHS:
            runner_log.say(f"{len(deaths)} runners died within {_WINDOW:.0f} s; giving up")
            return
        lock = run.hold()


def _detach(run: RunDirectory) -> None:
    """Let go of the terminal: a closed window must not end the job."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(run.path / "runner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for descriptor in (null, log):
        if descriptor > 2:
            os.close(descriptor)
    os.chdir(run.path)


if __name__ == "__main__":
    main(sys.argv[1:])
