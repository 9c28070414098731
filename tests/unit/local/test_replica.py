"""A replica ends with all of its processes, and says truly how; its processes are played."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from random import Random

from bireme.backends.local.programs import Allocation, RunEnvironment
from bireme.backends.local.replica import ReplicaRun
from bireme.model.decisions import Start
from bireme.model.pods import Container, PodSpec
from bireme.model.replicas import Loss, ReplicaPhase
from bireme.runs import replica_journal
from bireme.runs.journal import Backlog, Journal
from bireme.runs.replica_journal import Entry
from bireme.runs.storage.disk_room import DiskRoom
from tests.simulation.local.machine import Machine, Processes, lose_zygotes
from tests.simulation.local.profiles import Profile
from tests.simulation.operator.loop import VirtualLoop

MAIN = Container("main", command=("/simulated/main",))
PREPARE = Container("prepare", command=("/simulated/prepare",))
PROXY = Container("proxy", command=("/simulated/proxy",), sidecar=True)
QUIET = Profile(
    chaos=0.0,
    mishaps=(),
    pause=1.0,
    work=1e6,
    crash=0.0,
    hang=0.0,
    not_started=0.0,
    strays=0.0,
    warm=0.0,
    lost_wake=0.0,
    groups=False,
)
WARM = Profile(**{**{name: getattr(QUIET, name) for name in QUIET.__struct_fields__}, "warm": 1.1})


class Stage:
    """One replica on a quiet machine in virtual time."""

    def __init__(
        self, folder: Path, *containers: Container, profile: Profile = QUIET, again: bool = False
    ) -> None:
        self.loop = VirtualLoop()
        self.machine = Machine(self.loop, Random(1), profile, frozenset())
        inits = tuple(one for one in containers if one is not MAIN)
        pod = PodSpec((MAIN,), inits, grace=2.0)
        start = Start("job-worker-0", "worker", 0, 0, pod, main="main", restarts_in_place=again)
        site = RunEnvironment("job.uid", "default", folder, str(folder), {}, "/usr/bin/python3", {}, folder)
        self._journal: Journal[Entry] = Journal(folder / "journal.jsonl", Entry)
        self._journal.append(replica_journal.Began("uid", start.replica, start.role, 0, 0, 0.0))
        self.backlog: Backlog[Entry] = Backlog(self._journal, DiskRoom(folder, time))
        self.run = ReplicaRun(
            Allocation(start, "uid"), site, Processes(self.machine), self.backlog, lambda: None, self
        )

    def time(self) -> float:
        return self.loop.time()

    monotonic = time

    def play(self, story: Coroutine[None, None, None]) -> None:
        async def told() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.run.live())
                await story
                await self.run.stop(0.0)

        self.loop.run_until_complete(told())
        self.loop.close()


def test_a_replica_that_is_stopped_while_its_program_is_forked_is_not_gone_before_that_has_ended(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, profile=WARM)

    async def story() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not stage.machine.processes
        await stage.run.stop(0.0)
        await asyncio.sleep(1.0)

        assert not stage.machine.processes

    stage.play(story())


def test_the_death_of_a_zygote_is_an_eviction_where_crashes_are_restarted_in_place_too(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path, profile=WARM, again=True)

    async def story() -> None:
        await asyncio.sleep(1.0)
        lose_zygotes(stage.machine)
        await asyncio.sleep(1.0)

        seen = stage.run.replica()
        assert (seen.phase, seen.loss, seen.restarts) == (ReplicaPhase.FAILED, Loss.EVICTION, 0)

    stage.play(story())


def test_a_replica_has_not_ended_before_its_sidecar(tmp_path: Path) -> None:
    stage = Stage(tmp_path, PROXY)

    async def story() -> None:
        await asyncio.sleep(1.0)
        main = next(one for one in stage.machine.processes.values() if one.container == "main")
        main.end(1)
        await asyncio.sleep(0.001)

        assert stage.machine.processes
        assert stage.run.replica().phase is ReplicaPhase.RUNNING
        await asyncio.sleep(10.0)
        seen = stage.run.replica()
        assert (seen.phase, seen.exit_code, seen.reason) == (ReplicaPhase.FAILED, 1, "Error")

    stage.play(story())


def test_an_init_container_that_succeeded_is_no_crash_to_the_next_runner(tmp_path: Path) -> None:
    stage = Stage(tmp_path, PREPARE)

    async def story() -> None:
        await asyncio.sleep(1.0)
        next(iter(stage.machine.processes.values())).end(0)
        await asyncio.sleep(1.0)

        (life,) = replica_journal.lives(stage.backlog.read())
        left = replica_journal.left_behind(life)
        assert (left.loss, left.restarts) == (Loss.EVICTION, 0)

    stage.play(story())


def test_a_sidecar_that_ends_because_it_is_stopped_is_no_crash_to_the_next_runner(tmp_path: Path) -> None:
    stage = Stage(tmp_path, PROXY)

    async def story() -> None:
        await asyncio.sleep(1.0)
        proxy = next(one for one in stage.machine.processes.values() if one.container == "proxy")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stage.run.stop(100.0))
            await asyncio.sleep(0)
            proxy.end(0)
            await asyncio.sleep(0.001)

            (life,) = replica_journal.lives(stage.backlog.read())
            left = replica_journal.left_behind(life)
            assert (left.loss, left.restarts) == (Loss.EVICTION, 0)

    stage.play(story())
