"""Sees and does on this machine what one run needs: the local backend."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from bireme import errors
from bireme.backends.local import mpi_agent
from bireme.backends.local.mpi_agent import AgentServer
from bireme.backends.local.processes import Processes, Program
from bireme.backends.local.programs import LOOPBACK, Allocation, RunEnvironment
from bireme.backends.local.replica import ReplicaRun
from bireme.backends.local.replica_reports import Telling
from bireme.core.clock import Clock
from bireme.model.decisions import Abandon, Action, Admit, Release, SharedFile, Start, Stop
from bireme.model.job import Job
from bireme.model.pods import GPU_SUFFIXES
from bireme.model.replicas import (
    Address,
    Addresses,
    Admission,
    Fault,
    Granted,
    Observation,
    Replica,
    Waiting,
)
from bireme.model.stored import Stored
from bireme.runs import replica_journal
from bireme.runs.journal import Backlog
from bireme.runs.ledger import Grant, Ledger
from bireme.runs.replica_history import ReplicaHistory
from bireme.runs.replica_journal import Began, Entry, Gone
from bireme.runs.run_files import RunId
from bireme.runs.storage.disk_room import PASSING


class LocalBackend:
    """Runs the replicas of one run as process groups that die with this process."""

    def __init__(
        self,
        run: RunId,
        site: RunEnvironment,
        ledger: Ledger,
        processes: Processes,
        journal: Backlog[Entry],
        tasks: asyncio.TaskGroup,
        changed: Callable[[], None],
        clock: Clock,
        chance: Random,
    ) -> None:
        self._run = run
        self._site = site
        self._ledger = ledger
        self._processes = processes
        self._tasks = tasks
        self._changed = changed
        self._clock = clock
        self._chance = chance
        self.journal = journal
        self.room = journal.room
        self._left: dict[str, ReplicaHistory] = {}
        self._runs: dict[str, ReplicaRun] = {}
        self._admission: Admission | None = None
        self._refusal: Fault | None = None
        """Why there can never be room for what was last asked for."""
        self._grant: Grant | None = None
        self._agents: AgentServer | None = None
        self._began: dict[str, float] = {}
        self._telling = Telling(site.folder)

    def recover(self) -> None:
        """Learn from the journal what an earlier runner left, and end what is still alive of it."""
        lives = replica_journal.lives(self.journal.read())
        self._left = {life.uid: life for life in lives if not life.gone}
        self._processes.end_run(self._site.run)

    async def see(self, key: str, stored: Stored) -> Observation:
        # Only memory and files are read. What has ended was recorded by the task that watched it, and a
        # replica that cannot be started is shown with its fault until the core has it stopped.
        faults = [
            Fault(name, run.fault, final=True, attempt=run.placed.start.attempt)
            for name, run in self._runs.items()
            if run.fault is not None
        ]
        if self._refusal is not None:
            faults.append(self._refusal)
        return Observation(tuple(self.replicas()), self._admission, tuple(faults))

    @property
    def holds(self) -> bool:
        """Whether the run still has resources."""
        return self._admission is not None

    def replicas(self) -> list[Replica]:
        left = [
            self._telling.add(replica_journal.left_behind(life), life.began) for life in self._left.values()
        ]
        return left + [
            self._telling.add(run.replica(), self._began[run.placed.uid]) for run in self._runs.values()
        ]

    def pids(self) -> dict[str, dict[str, int]]:
        return {name: run.pids for name, run in self._runs.items()}

    async def publish(self, key: str, files: tuple[SharedFile, ...]) -> None:
        folder = self._site.folder / "files"
        for file in files:
            await self.room.until(partial(_keep, folder / file.path.lstrip("/"), file))
        if files and self._agents is None:
            await self.room.until(lambda: self._listen(folder))

    def close(self) -> None:
        """End what is left of the run once it is at rest."""
        if self._agents is not None:
            self._agents.close()
        self._processes.end_run(self._site.run)

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> bool:
        for action in actions:
            match action:
                case Admit():
                    self._admit(action)
                case Release():
                    try:
                        self._ledger.release(self._run)
                    except PASSING as error:
                        # The admission is still there, so the core asks for this again.
                        self.room.lack(error)
                        continue
                    self._admission, self._grant = None, None
                    self._changed()
                case Start():
                    self._start(job, action)
                case Stop(replica, uid, grace):
                    self._stop(replica, uid, grace)
                case Abandon(replica, uid):
                    self._stop(replica, uid, 0.0)
        return False  # Whatever changes by that wakes the loop itself.

    def _listen(self, folder: Path) -> None:
        """Stand in for ssh: what the launcher's mpirun starts on another host is started in that worker."""
        address = self._site.folder / "agent"
        text = mpi_agent.script(sys.executable, address)
        for place in (folder / "etc/mpi/kubexec.sh", folder / "bin/ssh"):
            _keep(place, SharedFile(str(place), text, 0o555))

        def worker(name: str) -> Program | None:
            run = self._runs.get(name)
            return run.within() if run is not None and run.replica().ready else None

        self._agents = AgentServer(address, worker, self._tasks)

    def _admit(self, action: Admit) -> None:
        before = self._admission
        try:
            answer = self._ledger.admit(self._run, action.attempt, action.demands, self._clock.time())
        except PASSING as error:
            # Not an answer: the core asks again. What is granted already stays so.
            self.room.lack(error)
            if not isinstance(before, Granted):
                self._admission = Waiting(action.attempt, str(error).partition("\n")[0])
            return
        except errors.NoRoom as error:
            replica = action.demands[0].replica
            self._refusal = Fault(replica, str(error), final=True, attempt=action.attempt)
            self._changed()
            return
        self._refusal = None
        if isinstance(answer, Grant):
            book = {
                demand.replica: Address(LOOPBACK, dict(answer.ports.get(demand.replica, {})))
                for demand in action.demands
            }
            self._grant = answer
            self._admission = Granted(action.attempt, frozenset(book), Addresses(book))
        else:
            self._admission = Waiting(action.attempt, answer.reason)
        if self._admission != before:
            self._changed()

    def _start(self, job: Job, action: Start) -> None:
        if action.replica in self._runs or any(
            life.replica == action.replica for life in self._left.values()
        ):
            return
        uid = f"{self._chance.getrandbits(64):016x}"
        began = Began(uid, action.replica, action.role, action.index, action.attempt, self._clock.time())
        if not self.journal.precede(began):
            return  # it is still missing at the next look, and started then
        # A replica sees its own GPUs, or under torchrun's rules all of the job's: a script for torchrun picks
        # its device by its local rank, so each rank has to see every rank's.
        granted = self._grant.devices if self._grant else {}
        replicas = sorted(granted) if job.torchrun_environment else [action.replica]
        devices = [
            id
            for replica in replicas
            for name, held in granted.get(replica, {}).items()
            if name.endswith(GPU_SUFFIXES)
            for id in held
        ]
        placed = Allocation(action, uid, tuple(dict.fromkeys(devices)) or None)
        run = ReplicaRun(placed, self._site, self._processes, self.journal, self._changed, self._clock)
        self._runs[action.replica] = run
        self._began[uid] = began.at
        self._tasks.create_task(run.live())

    def _stop(self, replica: str, uid: str, grace: float | None) -> None:
        if self._left.pop(uid, None) is not None:
            self.journal.append(Gone(uid, self._clock.time()))
            self._changed()
            return
        run = self._runs.get(replica)
        if run is None or run.placed.uid != uid:
            return

        async def stopped() -> None:
            await run.stop(grace)
            if self._runs.get(replica) is run:
                del self._runs[replica]
            self._changed()

        self._tasks.create_task(stopped())


def _keep(path: Path, file: SharedFile) -> None:
    """Replace a shared file if it differs; readers see the old or the new one, never half of it."""
    with contextlib.suppress(OSError):
        if path.read_text() == file.text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.write_text(file.text)
    os.chmod(new, file.mode)
    new.replace(path)
