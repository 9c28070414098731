"""Keeps the containers of one replica as a kubelet would."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable

from bireme import errors
from bireme.backends.local import programs
from bireme.backends.local.log_pump import LogSink, Pump, drain
from bireme.backends.local.processes import (
    EVICTED,
    ContainerGroup,
    NotStarted,
    Output,
    Processes,
    Program,
    ProgramProcess,
)
from bireme.backends.local.programs import Allocation, RunEnvironment
from bireme.core.clock import Clock
from bireme.core.replicas import container_env, kubelet
from bireme.core.replicas.kubelet import ContainerHistory, InPlace, Lifecycle
from bireme.model.pods import Container
from bireme.model.quantities import show_memory
from bireme.model.replicas import Loss, Replica, ReplicaPhase
from bireme.runs.journal import Backlog
from bireme.runs.logs.log_writer import LogSettings, LogWriter
from bireme.runs.replica_journal import Ended, Entry, Gone, Over, Ran
from bireme.runs.storage import files
from bireme.runtime.rank.stdin_terminal import TERMINAL

_TRY_AGAIN = 1.0
"""Seconds until a container is tried again that could not be started for lack of room on the disk."""
_PROMPT = 0.05
"""Seconds until an unfinished line is shown to a person who may have to answer it."""


class ReplicaRun:
    """A replica that this runner started."""

    def __init__(
        self,
        placed: Allocation,
        site: RunEnvironment,
        processes: Processes,
        journal: Backlog[Entry],
        changed: Callable[[], None],
        clock: Clock,
    ) -> None:
        self.placed = placed
        self.fault: str | None = None
        self._site = site
        self._processes = processes
        self._journal = journal
        self._note = journal.append
        self._changed = changed
        self._clock = clock
        self._label = f"{placed.start.replica}.{placed.start.attempt}"
        # A person waits for a prompt, which has no end of line.
        is_typed = TERMINAL in site.environment
        self._log_settings = LogSettings(live_every=_PROMPT) if is_typed else LogSettings()
        # In monotonic time: only this process reads them, and a clock that is set back stretches no back-off.
        self._states: dict[str, ContainerHistory] = {}
        self._running: dict[str, ProgramProcess] = {}
        self._groups: dict[str, ContainerGroup | None] = {}
        self._life = Lifecycle(ReplicaPhase.PENDING)
        self._loss, self._reason, self._message = Loss.CRASH, "", ""
        self._stopping = asyncio.Event()
        self._is_launching = False
        self._woken = asyncio.Event()

    def replica(self) -> Replica:
        """What is seen of it now."""
        start, life = self.placed.start, self._life
        # A sidecar may outlive the work by its grace, and until then the replica has not ended: what it holds
        # must not be given to another one.
        phase = ReplicaPhase.RUNNING if life.phase.is_final and self.is_busy else life.phase
        return Replica(
            name=start.replica,
            role=start.role,
            index=start.index,
            attempt=start.attempt,
            uid=self.placed.uid,
            phase=phase,
            ready=life.ready,
            stopping=self._stopping.is_set(),
            restarts=life.restarts,
            loss=self._loss,
            exit_code=life.exit_code,
            reason=self._reason,
            message=self._message,
        )

    @property
    def is_busy(self) -> bool:
        """Whether a process of it lives, or is being forked: that cannot be called back."""
        return bool(self._running) or self._is_launching

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._running.items()}

    def within(self) -> Program:
        """What another program needs to run inside this replica, beside its main container."""
        start = self.placed.start
        container = self._container(start.main)
        group = self._groups.get(container.name)
        return programs.compose(self._site, self.placed, container, tuple(group.procs) if group else ())

    async def live(self) -> None:
        """Keep the replica until it is over, as a kubelet does."""
        async with asyncio.TaskGroup() as tasks:
            while not self._stopping.is_set():
                self._woken.clear()
                self._decide()
                held_up = False
                for name in self._life.start:
                    if self._stopping.is_set():
                        break
                    held_up |= not await self._start(tasks, self._container(name))
                for name in self._life.stop:
                    tasks.create_task(self._end_container(name))
                if self._life.phase.is_final:
                    break
                if self.fault is not None:
                    self._signal(signal.SIGKILL)
                    break
                if held_up:
                    await self._pause(self._clock.monotonic() + _TRY_AGAIN)
                elif not self._life.start:
                    await self._pause(self._life.wake_at)
        self._sweep()

    async def stop(self, grace: float | None) -> None:
        """End it: SIGTERM, grace, SIGKILL; then it is gone."""
        patience = self.placed.start.pod.grace if grace is None else grace
        self._stopping.set()
        self._woken.set()
        self._changed()
        if self.is_busy and patience > 0:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._all_ended()
        while self.is_busy:
            self._signal(signal.SIGKILL)
            for group in self._groups.values():
                if group is not None:
                    group.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await self._all_ended()
        self._sweep()
        self._note(Gone(self.placed.uid, self._clock.time()))
        self._changed()

    def _judged(self) -> Lifecycle:
        """What a kubelet would do with it now, and say of it."""
        if self._loss is Loss.EVICTION:
            # The place was lost, not the program: no container is started again in it, and none continues.
            return Lifecycle(ReplicaPhase.FAILED, restarts=self._life.restarts, exit_code=137)
        start = self.placed.start
        policy = InPlace.NEVER
        if start.restarts_in_place:
            policy = InPlace.ALWAYS if start.restarts_always else InPlace.ON_FAILURE
        return kubelet.decide(start.pod, policy, start.main, self._states, self._clock.monotonic())

    def _decide(self) -> None:
        self._life = self._judged()
        if self._loss is Loss.EVICTION:
            self._signal(signal.SIGKILL)
        if self._life.phase.is_final:
            self._note(
                Over(
                    self.placed.uid,
                    self._life.phase,
                    self._life.exit_code,
                    self._life.restarts,
                    self._clock.time(),
                    self._loss,
                    self._reason,
                    self._message,
                )
            )
        self._changed()

    async def _start(self, tasks: asyncio.TaskGroup, container: Container) -> bool:
        """Start a container; False while its folders and its log do not fit on the disk."""
        group, start, name = self._group(container), self.placed.start, container.name
        sink: LogSink | None = None
        pumps: list[Pump] = []
        try:
            writer = LogWriter(self._site.folder / "logs", start.replica, name, self._log_settings)
            sink = LogSink(writer, self._journal.room, self._changed, self._clock)
            # One by one: if there is no descriptor left for the second pipe, the first is closed below.
            pumps.append(Pump(sink.stdout))
            pumps.append(Pump(sink.stderr))
            procs = tuple(group.procs) if group else ()
            program = programs.compose(self._site, self.placed, container, procs)
            given = self._site.stdin if name == start.main else None
            stdin = given.rewound() if given is not None else None
            output = Output(pumps[0].write_end, pumps[1].write_end, stdin)
            self._is_launching = True
            process = await self._processes.launch(program, output, self._label)
        except (NotStarted, container_env.Unresolved, OSError, ValueError, errors.BiremeError) as error:
            if sink is not None:
                sink.close()
            if files.is_full(error):
                self._journal.room.lack(error)
                return False
            self.fault = str(error)
            self._changed()
            return True
        finally:
            self._is_launching = False
            if self._stopping.is_set():
                self._woken.set()
            for pump in pumps:
                pump.started()
        now = self._clock.time()
        self._running[name] = process
        before = self._states.get(name, ContainerHistory())
        self._states[name] = kubelet.started(before, self._clock.monotonic())
        ticks = self._processes.start_time(process.pid)
        self._note(Ran(self.placed.uid, name, process.pid, ticks, process.is_warm, now))
        tasks.create_task(self._watch(container, process, pumps, sink))
        if self._stopping.is_set():
            process.signal(signal.SIGTERM)  # it was not there yet when the others were told
        return True

    async def _watch(
        self, container: Container, process: ProgramProcess, pumps: list[Pump], sink: LogSink
    ) -> None:
        code = await process.wait()
        now = self._clock.time()
        group = self._groups.get(container.name)
        self._processes.end_rest(process, group)
        drain(pumps, sink)
        if not self._life.phase.is_final:  # the end of a sidecar after that explains nothing
            self._explain(container, code, group)
        code = 137 if code == EVICTED else code
        del self._running[container.name]
        self._states[container.name] = kubelet.ended(
            self._states[container.name], code, self._clock.monotonic()
        )
        # What ends because it is stopped is not started again. Counted as a restart, it would be a crash to
        # the next runner if this one died before the replica is gone.
        restarts = (self._life if self._stopping.is_set() else self._judged()).restarts
        self._note(Ended(self.placed.uid, container.name, code, now, self._reason, self._message, restarts))
        self._woken.set()
        self._changed()

    def _explain(self, container: Container, code: int, group: ContainerGroup | None) -> None:
        """Say why a container ended, where more than its code is known."""
        self._loss, self._reason, self._message = Loss.CRASH, "", ""
        if code == EVICTED:
            self._loss, self._reason = Loss.EVICTION, "Evicted"
            self._message = "its zygote died, and it died with it"
            return
        memory = group.out_of_memory() if group is not None and code else None
        if memory is not None:
            self._reason = "OOMKilled"
            self._message = (
                f"out of memory: it may use {show_memory(memory.limit)} and used {show_memory(memory.peak)}"
            )
        if code and not self._reason:
            self._reason = "Error"

    def _group(self, container: Container) -> ContainerGroup | None:
        old = self._groups.get(container.name)
        if old is not None:
            old.remove()
        path = (self._site.run, self.placed.start.replica, container.name)
        group = self._processes.group(path, container.limits)
        self._groups[container.name] = group
        return group

    def _container(self, name: str) -> Container:
        pod = self.placed.start.pod
        containers = (*pod.containers, *pod.init_containers)
        return next(container for container in containers if container.name == name)

    async def _end_container(self, name: str) -> None:
        process = self._running.get(name)
        if process is not None:
            process.signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(min(self.placed.start.pod.grace, 5.0)):
                    await process.wait()
            except TimeoutError:
                process.signal(signal.SIGKILL)

    async def _pause(self, until: float | None) -> None:
        delay = None if until is None else max(0.0, until - self._clock.monotonic())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._woken.wait()

    async def _all_ended(self) -> None:
        while self.is_busy:
            self._woken.clear()
            await self._woken.wait()

    def _signal(self, number: int) -> None:
        for process in self._running.values():
            process.signal(number)

    def _sweep(self) -> None:
        if self.is_busy:
            return
        for group in self._groups.values():
            if group is not None:
                group.kill_all()
                group.remove()
        self._groups.clear()
