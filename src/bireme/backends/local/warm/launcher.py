"""Starts a rank in milliseconds: forked from a zygote that has its modules imported already.

Only a plain `python script.py` or `python -m module` of the job's interpreter is served warm; anything else,
and anything while no zygote is ready, starts as a new process. What a new script imports is read from its
source, so that it is served by a zygote that other scripts have made warm. A cold rank of that kind starts
through the same bootstrap, which reports what it imported, so that a zygote can be made ready in the
background: for the next attempt of this job, and for the next run of any script that imports the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.local.processes import EVICTED, Output, Program, ProgramProcess, exit_code, spawn
from bireme.backends.local.programs import RunEnvironment
from bireme.backends.local.warm import preload_plan, runtime_zip, script_imports, zygote_pool
from bireme.backends.local.warm.zygote_files import Lesson
from bireme.backends.local.warm.zygote_pool import ZygoteKey, ZygotePool
from bireme.core.clock import Clock
from bireme.core.machine import warm_starts
from bireme.core.machine.warm_starts import Needs
from bireme.core.scripts.command_lines import is_python
from bireme.model.decode_errors import DAMAGED
from bireme.runs import machine, runner_log
from bireme.runs.storage import files
from bireme.runtime import wire

_PATIENCE = 5.0
"""Seconds that a zygote may take to fork a rank."""
_GREETING = 1.0
"""Seconds that a ready zygote may take to answer at all; a cold start takes not much longer."""
_LOOK_EVERY = 0.5
_LOOK_FOR = 60.0
"""How long a cold rank is watched for what it imports."""


class Plain(Struct, frozen=True):
    """A command that a zygote can serve: `[-m] TARGET args...`, as after `python`."""

    words: tuple[str, ...]
    script: str
    unbuffered: bool


def plain(program: Program, python: str) -> Plain | None:
    """Read a program as a plain start of the job's interpreter, or answer None."""
    first, *rest = program.argv
    if first != python and not (is_python(first) and os.path.realpath(first) == os.path.realpath(python)):
        return None
    unbuffered = rest[:1] == ["-u"]
    words = rest[1:] if unbuffered else rest
    target = words[1:2] if words[:1] == ["-m"] else words[:1]
    if not target or target[0].startswith("-"):
        return None
    if words[0] == "-m":
        return Plain(tuple(words), f"-m {target[0]}", unbuffered)
    return Plain(tuple(words), os.path.join(program.folder, target[0]), unbuffered)


class WarmLauncher:
    """Starts ranks from zygotes where it can; belongs to one runner."""

    def __init__(self, home: Path, site: RunEnvironment, clock: Clock, *, warm: bool) -> None:
        self._clock = clock
        self._site = site
        self._stable = ZygotePool(home)
        self._zip = str(runtime_zip.runtime_zip(home))
        self._limit = warm_starts.limit(site.environment, machine.capacity().memory)
        self._warm = warm and self._limit > 0 and zygote_pool.is_available()
        self._needs: dict[str, Needs] = {}
        self._mute: set[tuple[int, int]] = set()
        self._connections: dict[str, _Connection] = {}
        self._watched: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._served: dict[str, tuple[Plain, ZygoteKey]] = {}
        self._asked: list[wire.Channel] = []

    async def __aenter__(self) -> WarmLauncher:
        if self._warm:
            # Before it forks, a zygote looks at all files that it has loaded, which takes it some 20 ms; one
            # look is good for a second. Asked now, it looks while this process takes its first steps.
            for path in self._stable.sockets():
                with contextlib.suppress(OSError, wire.WireError):
                    channel = wire.connect(path, _GREETING)
                    self._asked.append(channel)
                    channel.send({"op": "status"})
        return self

    async def __aexit__(self, *_: object) -> None:
        for channel in self._asked:
            channel.close()
        self._learn()
        for task in self._tasks:
            task.cancel()
        for connection in self._connections.values():
            connection.close()
        if self._warm:
            # One that was started with a guess of its size may have turned out larger.
            with contextlib.suppress(OSError):
                self._stable.make_room(self._limit)

    async def launch(self, program: Program, output: Output, label: str) -> ProgramProcess:
        chosen = plain(program, self._site.python)
        if chosen is None:
            return spawn(program, output)
        reports = self._site.folder / "reports"
        reports.mkdir(exist_ok=True)
        more = {"BIREME_REPORT": str(reports / f"{label}.json"), "BIREME_RUNTIME_ZIP": self._zip}
        if chosen.unbuffered:
            more["PYTHONUNBUFFERED"] = "1"
        program = replace(program, environment=program.environment | more)
        key = self._stable.key(self._site.python, program.environment)
        self._served[label] = (chosen, key)
        self._read(program, chosen)
        if not self._warm:
            return spawn(_through_bootstrap(program, chosen), output)
        connection = await self._connected(chosen, key)
        if connection is not None:
            request = wire.ForkRequest(
                id=label,
                argv=chosen.words,
                env=program.environment,
                cwd=program.folder,
                cgroups=program.cgroups,
                mounts=program.mounts,
            )
            forked = await connection.start(request, output)
            if forked is not None:
                return forked
        spawned = spawn(_through_bootstrap(program, chosen), output)
        if chosen.script not in self._watched:
            # One cold rank of a script is watched for what it imports, and a zygote imports the same.
            self._watched.add(chosen.script)
            task = asyncio.get_running_loop().create_task(self._watch(program, chosen, spawned.pid))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return spawned

    def _read(self, program: Program, chosen: Plain) -> None:
        """Read once what the source of a script imports, where it lies for this process."""
        if chosen.script in self._needs:
            return
        words, folder = chosen.words, program.folder
        for source, target, _ in program.mounts:
            words = tuple(_moved(word, target, source) for word in words)
            folder = _moved(folder, target, source)
        path = program.environment.get("PYTHONPATH", "")
        self._needs[chosen.script] = script_imports.needs(words, folder, path)

    def _learn(self) -> None:
        """Remember from the ranks' reports what their scripts import, and make that warm for the next run."""
        learnt = set()
        for label, (chosen, key) in self._served.items():
            with contextlib.suppress(OSError, *DAMAGED):
                path = self._site.folder / "reports" / f"{label}.json"
                report = msgspec.json.decode(files.read(path), type=_Report)
                if report.modules:
                    before = self._stable.learnt(self._site.python, chosen.script)
                    known = before.given(self._needs[chosen.script]).modules if report.warm else ()
                    modules = tuple(sorted({*known, *report.modules}))
                    if (chosen.script, modules) not in learnt:
                        self._remember(chosen, key, modules, report.sites)
                    learnt.add((chosen.script, modules))

    def _remember(
        self, chosen: Plain, key: ZygoteKey, modules: tuple[str, ...], sites: tuple[str, ...]
    ) -> None:
        source = self._needs[chosen.script]
        lesson = Lesson(modules, tuple(sorted(source.certain | source.possible)), sites)
        self._stable.learn(self._site.python, chosen.script, lesson)
        if not self._warm:
            return
        wanted = preload_plan.plan(modules, source, sites)
        if wanted and not self._stable.covers(key, lesson.needs(source), wanted):
            self._stable.start(key, wanted, self._limit, self._clock.time())

    async def _connected(self, chosen: Plain, key: ZygoteKey) -> _Connection | None:
        """The connection to the best zygote that answers; one that did not is not asked again."""
        lesson = self._stable.learnt(self._site.python, chosen.script)
        for socket in self._stable.serving(key, lesson.needs(self._needs[chosen.script])):
            connection = self._connections.get(socket)
            if connection is not None and not connection.is_closed:
                return connection
            try:
                info = os.stat(socket)
            except OSError:
                continue
            # Tells a zygote from the next one at the same place.
            identity = info.st_ino, info.st_mtime_ns
            if identity in self._mute:
                continue
            connection = await _Connection.open(socket)
            if connection is not None:
                self._connections[socket] = connection
                return connection
            self._mute.add(identity)
        return None

    async def _watch(self, program: Program, chosen: Plain, pid: int) -> None:
        before: frozenset[str] = frozenset()
        folders: tuple[str, ...] = ()
        for _ in range(int(_LOOK_FOR / _LOOK_EVERY)):
            await asyncio.sleep(_LOOK_EVERY)
            packages, sites = preload_plan.loaded(pid)
            if before and packages in (before, frozenset()):
                break
            before, folders = packages, sites
        if not before:
            return
        source = self._needs[chosen.script]
        lesson = self._stable.learnt(self._site.python, chosen.script).given(source)
        # Packages without compiled parts are not seen, but the source tells of them.
        modules = {*lesson.modules, *before, *source.certain}
        key = self._stable.key(self._site.python, program.environment)
        # A rank that starts cold is slower, nothing more: no failure here may reach the job.
        with contextlib.suppress(OSError):
            self._remember(chosen, key, tuple(sorted(modules)), lesson.sites or folders)


class Forked:
    """A rank that a zygote forked for this runner."""

    is_warm = True

    def __init__(self, connection: _Connection, id: str, pid: int) -> None:
        self._connection = connection
        self._id = id
        self.pid = pid
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        return await asyncio.shield(self.exited)

    def signal(self, number: int) -> None:
        if not self.exited.done():
            self._connection.send({"op": "signal", "id": self._id, "signal": number})


class _Connection:
    """One runner's connection to one zygote."""

    def __init__(self, channel: wire.Channel) -> None:
        self._channel = channel
        self._unpacker = wire.Unpacker()
        self._ranks: dict[str, Forked] = {}
        self._answers: dict[str, asyncio.Future[Forked | None]] = {}
        self._count = 0
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        channel.socket.setblocking(False)
        self._loop.add_reader(channel.socket.fileno(), self._read)

    @classmethod
    async def open(cls, path: str) -> _Connection | None:
        """Connect to a zygote that is ready and fresh; one whose modules changed on disk is told to end."""
        try:
            channel = wire.connect(path, _GREETING)
            channel.send({"op": "status"})
            status = channel.receive()
            if status is not None and status.get("ready") and not status.get("stale"):
                return cls(channel)
            if status is not None and status.get("stale"):
                channel.send({"op": "shutdown"})
            channel.close()
        except (OSError, wire.WireError):
            pass
        return None

    async def start(self, request: wire.ForkRequest, output: Output) -> Forked | None:
        """Have a rank forked; None when the zygote refuses, so that the caller starts it cold."""
        self._count += 1
        id = f"{request.id}/{self._count}"
        answer: asyncio.Future[Forked | None] = self._loop.create_future()
        self._answers[id] = answer
        stdin = os.open(os.devnull, os.O_RDONLY) if output.stdin is None else os.dup(output.stdin)
        try:
            message = {**request.message(), "id": id}
            self._channel.socket.settimeout(_PATIENCE)
            self._channel.send(message, (stdin, output.stdout, output.stderr))
            self._channel.socket.setblocking(False)
            async with asyncio.timeout(_PATIENCE):
                return await answer
        except (OSError, TimeoutError, wire.WireError):
            self.close()
            return None
        finally:
            os.close(stdin)
            self._answers.pop(id, None)

    def send(self, message: wire.Message) -> None:
        with contextlib.suppress(OSError):
            self._channel.socket.settimeout(_PATIENCE)
            self._channel.send(message)
            self._channel.socket.setblocking(False)

    def close(self) -> None:
        """Closing kills every rank that was started here, which is what a dead zygote does too."""
        if self.is_closed:
            return
        self.is_closed = True
        self._loop.remove_reader(self._channel.socket.fileno())
        self._channel.close()
        for rank in self._ranks.values():
            if not rank.exited.done():
                rank.exited.set_result(EVICTED)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(None)

    def _read(self) -> None:
        try:
            data = self._channel.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            for message in self._unpacker.feed(data):
                self._take(message)
        except (wire.WireError, KeyError, TypeError, ValueError, OverflowError) as error:
            runner_log.say(f"a zygote sent what makes no sense, so its ranks are given up: {error!r}"[:500])
            self.close()

    def _take(self, message: wire.Message) -> None:
        id = str(message.get("id", ""))
        match message.get("op"):
            case "started":
                self._ranks[id] = Forked(self, id, int(message["pid"]))
                self._settle(id, self._ranks[id])
            case "refused" | "error":
                self._settle(id, None)
            case "exited":
                rank = self._ranks.pop(id, None)
                if rank is not None and not rank.exited.done():
                    rank.exited.set_result(exit_code(os.waitstatus_to_exitcode(int(message["status"]))))
            case _:
                pass

    def _settle(self, id: str, rank: Forked | None) -> None:
        answer = self._answers.get(id)
        if answer is not None and not answer.done():
            answer.set_result(rank)


class _Report(Struct, frozen=True):
    modules: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    warm: bool = False


def _moved(path: str, target: str, source: str) -> str:
    """Where a path of the rank is for us."""
    return source + path.removeprefix(target) if path == target or path.startswith(f"{target}/") else path


def _through_bootstrap(program: Program, chosen: Plain) -> Program:
    words = (program.argv[0], str(zygote_pool.RUNTIME / "start_rank.py"), *chosen.words)
    return replace(program, argv=words)
