"""A machine in memory: processes that end, leave others behind and die with their runner; a disk that fills.

Only this layer is played. The backend, its replicas, the journal, the ledger, the run directory and the loop
of the runner are the real ones, over a real folder. Whatever the runner does through it is a
moment to be killed in.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
from collections.abc import Callable, Iterable
from random import Random

import msgspec

from bireme import errors
from bireme.backends.local import processes as contract
from bireme.backends.local.cgroups import OutOfMemory
from bireme.backends.local.processes import EVICTED, NotStarted, Output, Program
from bireme.model.decisions import Demand, Event
from bireme.model.pods import Resources
from bireme.model.replicas import Waiting
from bireme.model.status import Status
from bireme.runs.directory import RunDirectory
from bireme.runs.journal import Journal
from bireme.runs.ledger import Grant, Ledger
from bireme.runs.replica_journal import Entry
from bireme.runs.run_files import RunId
from tests.simulation.local.profiles import Profile
from tests.simulation.operator.loop import START
from tests.simulation.rules import need
from tests.simulation.seeing import need_to_act
from tests.simulation.simulated_replica import CODES, HANGING


class Killed(KeyboardInterrupt):
    """The runner dies here. An event loop stops at once for this kind of exception, wherever it is raised."""


class Machine:
    """What is true of the machine, whatever a runner believes."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, rng: Random, profile: Profile, serving: frozenset[str]
    ) -> None:
        self.loop, self.rng, self.profile = loop, rng, profile
        self._serving = serving
        """Roles whose programs never end by themselves."""
        self.calm = self.disk_is_full = False
        self.fuse: int | None = None
        """Moments until the runner is killed."""
        self.processes: dict[int, Process] = {}
        """Those that live, by process id."""
        self.ends: dict[tuple[str, int], list[tuple[str, int]]] = {}
        """Container and exit code of programs that ended by themselves, by replica and attempt."""
        self.told: list[str] = []
        self._pids = itertools.count(1000)

    def tell(self, what: str) -> None:
        self.told.append(f"{self.loop.time() - START:9.3f}  {what}")

    def happens(self, chance: float) -> bool:
        return not self.calm and self.rng.random() < chance

    def moment(self) -> None:
        """Something is about to be done, or was just done: the runner may not live to see it."""
        need_to_act("something is done")
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.fuse = None
                raise Killed

    def write(self) -> None:
        """Something is about to be written."""
        self.moment()
        if self.disk_is_full:
            raise errors.DiskFull("no space left on the simulated disk")

    def begin(self, program: Program, label: str, is_warm: bool) -> Process:
        replica, _, attempt = label.rpartition(".")
        container = os.path.basename(program.argv[0])
        for other in self.processes.values():
            need(other.attempt == int(attempt), f"{label} starts while {other} lives")
            same = (other.replica, other.container) == (replica, container)
            need(not same, f"{label}/{container} starts while {other} lives")
        process = Process(self, next(self._pids), replica, int(attempt), container, is_warm)
        self.processes[process.pid] = process
        self._draw_end(process, program.environment["BIREME_ROLE"])
        return process

    def lose_runner(self) -> None:
        """Its children die with it, those of a zygote a moment later; what left their groups stays."""
        for process in list(self.processes.values()):
            if process.is_stray:
                continue
            delay = 2.0 * self.rng.random() if process.is_warm else 0.0
            self.loop.call_later(delay, process.end, 137, False)

    def calm_down(self) -> None:
        self.calm, self.disk_is_full, self.fuse = True, False, None
        for process in list(self.processes.values()):
            # Where another container ended for good, one that lasts would keep its replica, as in a cluster.
            ends = self.ends.get((process.replica, process.attempt), [])
            if not process.lasts or any(container in ("main", "helper") for container, _ in ends):
                process.end_after(1.0 + 9.0 * self.rng.random(), 0)

    def _draw_end(self, process: Process, role: str) -> None:
        """A program runs for a while, and what comes of it is drawn now."""
        duration, code = self.rng.expovariate(1 / self.profile.work), 0
        fate = self.rng.random()
        if not self.calm and fate < self.profile.crash:
            code = self.rng.choice(CODES)
        elif not self.calm and fate < self.profile.crash + self.profile.hang:
            duration = HANGING
        process.lasts = process.container == "proxy" or (
            role in self._serving and process.container != "prepare"
        )
        if code == 0 and process.lasts:
            return
        process.end_after(min(duration, 20.0) if self.calm else duration, code)


class Process:
    """A process group: a program, and what it may leave behind when it ends."""

    def __init__(
        self, machine: Machine, pid: int, replica: str, attempt: int, container: str, is_warm: bool
    ) -> None:
        self.pid, self.replica, self.attempt, self.container = pid, replica, attempt, container
        self.is_warm = is_warm
        self.is_stray = self.lasts = False
        self._machine = machine
        self._ended: asyncio.Future[int] = machine.loop.create_future()

    def __repr__(self) -> str:
        return f"{self.replica}.{self.attempt}/{self.container}{' (left behind)' if self.is_stray else ''}"

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def signal(self, number: int) -> None:
        self._machine.moment()
        if self._ended.done():
            return
        if number == signal.SIGKILL:
            self.end(137, by_itself=False)
            return
        reaction = self._machine.rng.random()
        if reaction < 0.8 or self._machine.calm:
            self.end_after(self._machine.rng.random(), 143 if reaction < 0.5 else 0, by_itself=False)

    def end_after(self, seconds: float, code: int, by_itself: bool = True) -> None:
        if seconds < HANGING:
            self._machine.loop.call_later(seconds, self.end, code, by_itself)

    def end(self, code: int, by_itself: bool = True) -> None:
        """The program ends, and perhaps something of it stays."""
        if self._ended.done():
            return
        machine = self._machine
        machine.tell(f"{self} ends with {code}{'' if by_itself else ' because it was ended'}")
        if by_itself:
            machine.ends.setdefault((self.replica, self.attempt), []).append((self.container, code))
        self._ended.set_result(code)
        if machine.happens(machine.profile.strays):
            self.is_stray = True
        else:
            self.vanish()

    def vanish(self) -> None:
        """Nothing of it is left."""
        self._machine.processes.pop(self.pid, None)
        if not self._ended.done():
            self._ended.set_result(137)


class Group:
    """A control group: kills everything in it, whatever left the process group."""

    def __init__(self, machine: Machine, replica: str, container: str) -> None:
        self.procs: list[str] = []
        self._machine, self._replica, self._container = machine, replica, container

    def out_of_memory(self) -> OutOfMemory | None:
        return None

    def kill(self) -> bool:
        self._machine.moment()
        for process in list(self._machine.processes.values()):
            if (process.replica, process.container) == (self._replica, self._container):
                process.vanish()
        return True

    def kill_all(self) -> None:
        self.kill()

    def remove(self) -> None:
        self._machine.moment()


class Processes:
    """The machine's processes as one runner starts and ends them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def launch(self, program: Program, output: Output, label: str) -> Process:
        machine = self._machine
        machine.moment()
        if machine.disk_is_full and machine.happens(0.5):
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        if machine.happens(machine.profile.not_started):
            raise NotStarted("no such program")
        is_warm = machine.happens(machine.profile.warm)
        await asyncio.sleep(machine.rng.random() * 0.1)
        machine.moment()
        process = machine.begin(program, label, is_warm)
        os.write(output.stdout, b"hello\n")
        machine.moment()
        return process

    def start_time(self, pid: int) -> int:
        return pid

    def group(self, path: tuple[str, ...], limits: Resources) -> Group | None:
        self._machine.moment()
        return Group(self._machine, path[1], path[2]) if self._machine.profile.groups else None

    def end_rest(self, process: contract.ProgramProcess, group: contract.ContainerGroup | None) -> None:
        self._machine.moment()
        if (left := self._machine.processes.get(process.pid)) is not None:
            left.vanish()

    def end_run(self, run: str) -> None:
        self._machine.moment()
        for process in list(self._machine.processes.values()):
            process.vanish()


class SimulatedJournal(Journal[Entry]):
    """A real file that a full disk refuses and that a killed writer leaves torn."""

    def __init__(self, run: RunDirectory, machine: Machine, written: Callable[[Entry], None]) -> None:
        super().__init__(run.journal_path, Entry)
        self._machine, self._written = machine, written

    def append(self, *records: Entry) -> None:
        self._machine.write()
        try:
            self._machine.moment()
        except Killed:
            text = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
            kept = self._machine.rng.randrange(len(text))
            with self.path.open("ab") as file:
                file.write(text[:kept])
            if kept == len(text) - 1:  # Without its end of line the last record can be read all the same.
                for record in records:
                    self._written(record)
            raise
        super().append(*records)
        for record in records:
            self._written(record)
        self._machine.moment()


class SimulatedRun(RunDirectory):
    """A real run directory on the simulated disk, as the runner writes it."""

    machine: Machine
    recorded: Callable[[], None]

    def write_status(self, status: Status) -> None:
        self.machine.write()
        super().write_status(status)
        self.recorded()
        self.machine.moment()

    def append_events(self, events: Iterable[Event], now: float) -> None:
        self.machine.write()
        super().append_events(events, now)
        self.machine.moment()


class SimulatedLedger(Ledger):
    """The real ledger, which may be asked by a runner that dies of it."""

    machine: Machine

    def admit(self, run: RunId, attempt: int, demands: tuple[Demand, ...], now: float) -> Grant | Waiting:
        self.machine.write()
        answer = super().admit(run, attempt, demands, now)
        self.machine.moment()
        return answer

    def release(self, run: RunId) -> None:
        self.machine.write()
        super().release(run)
        self.machine.moment()


def lose_zygotes(machine: Machine) -> list[Process]:
    """Every zygote dies, and all that it forked with it."""
    lost = [process for process in machine.processes.values() if process.is_warm and not process.is_stray]
    for process in lost:
        process.end(EVICTED, by_itself=False)
    return lost
