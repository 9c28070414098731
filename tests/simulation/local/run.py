"""Turns a seed into the whole life of a local run, checked after every step."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from bireme.backends.local import run_environment
from bireme.backends.local.backend import LocalBackend
from bireme.core.machine.admission import Capacity
from bireme.core.replicas.kubelet import InPlace
from bireme.engine.step import Stored
from bireme.model.decisions import Action, Decision, Demand, Release, Start, Stop
from bireme.model.job import Job
from bireme.model.pods import Resources
from bireme.model.replicas import Loss, Observation, ReplicaPhase
from bireme.model.status import Phase, Status
from bireme.runner import control
from bireme.runner.loop import RunStore, carry_on
from bireme.runs import directory
from bireme.runs.journal import Backlog
from bireme.runs.ledger import Ledger as RealLedger
from bireme.runs.replica_journal import Began, Entry, Gone, Over
from bireme.runs.run_files import Desired, RunContext, RunId
from bireme.runs.run_files import Machine as MachineId
from bireme.runs.storage.disk_room import DiskRoom
from tests.simulation import jobs, rules
from tests.simulation.audit import Auditor
from tests.simulation.local import machine as machines
from tests.simulation.local import profiles
from tests.simulation.local.machine import Killed, Machine, SimulatedLedger, SimulatedRun
from tests.simulation.local.profiles import Mishap, Profile
from tests.simulation.operator.loop import VirtualLoop
from tests.simulation.rules import Ledger, need
from tests.simulation.simulated_replica import Body

PATIENCE = 4000.0
"""Seconds after the chaos in which every run must be at rest."""
MOST_STEPS = 20_000
RIVAL = RunId("rival")
MACHINE = Capacity(cpu=16_000, memory=1 << 40)


class Trace(Struct, frozen=True):
    """What came of one seed."""

    seed: int
    steps: int
    deaths: int
    job: Job
    profile: Profile
    status: Status
    told: tuple[str, ...]
    violation: str = ""
    details: str = ""

    @property
    def digest(self) -> str:
        """The same for the same seed, always."""
        return sha256(repr((self.steps, self.deaths, self.status, self.told)).encode()).hexdigest()

    def report(self) -> Iterator[str]:
        """The story for people, with the command that tells it again."""
        yield f"seed {self.seed}: {self.violation} (step {self.steps}, {self.deaths} runners died)"
        yield f"replay: python -m tests.simulation.local --seed {self.seed}"
        yield f"{self.job.kind} {self.job.unit} {self.job.policy}"
        roles = [(role.name, role.replicas, str(role.restart)) for role in self.job.roles]
        yield f"{roles} {self.job.options}"
        yield f"{self.profile}"
        yield from self.told[-120:]
        yield f"{self.status}"
        yield self.details


class WallClock:
    """The clock that the runner reads: the event loop's time, and a time of day that may be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset = 0.0

    def time(self) -> float:
        return self._loop.time() + self.offset

    def monotonic(self) -> float:
        return self._loop.time()


class Truth:
    """What is checked: the bodies of all replicas, kept apart from what the core believes."""

    def __init__(self, machine: Machine, profile: Profile) -> None:
        self._machine, self._profile = machine, profile
        self.ledger = Ledger()
        self.auditor = Auditor(self.ledger)
        self.starts: dict[str, Start] = {}
        self._settled: set[str] = set()
        """Uids whose end is in the journal."""
        self._gone: set[str] = set()
        self.is_new = True
        """Whether a runner is about to look for the first time."""
        self.steps = 0
        self.seen = Observation()
        self.pending: tuple[Stored, Decision, float]

    def note(self, entry: Entry) -> None:
        """A line of the journal is written: with its first one a replica begins to be."""
        if isinstance(entry, Began):
            body = Body(entry.uid, self.starts[entry.replica], 0)
            body.phase = ReplicaPhase.RUNNING
            self.ledger.note(body)
        elif isinstance(entry, Over | Gone):
            self._settled.add(entry.uid)
            body = self.ledger.bodies[entry.uid]
            if isinstance(entry, Gone):
                self._gone.add(entry.uid)
            elif entry.phase is ReplicaPhase.SUCCEEDED and not body.stopping:
                # It is shown as running for as long as a sidecar lives, and may be stopped meanwhile.
                self.ledger.succeeded.add((body.name, body.attempt))

    def look(self, seen: Observation) -> None:
        """What the backend shows agrees with what is true."""
        self.seen = seen
        self.steps += 1
        need(self.steps < MOST_STEPS, f"more than {MOST_STEPS} steps: the runner is busy for nothing")
        shown = {replica.uid: replica for replica in seen.replicas}
        for uid in shown.keys() - self.ledger.bodies.keys():
            need(False, f"{uid} is seen and never began")
        forgotten = self.ledger.bodies.keys() - self._gone - shown.keys() if self.is_new else ()
        need(not forgotten, f"{sorted(forgotten)} began, and the next runner does not see them")
        self.is_new = False
        for body in list(self.ledger.bodies.values()):
            body.crashes = self._crashes(body)
            replica = shown.get(body.uid)
            if body.alive and (replica is None or replica.phase.is_final):
                left = [
                    process
                    for process in self._machine.processes.values()
                    if (process.replica, process.attempt) == (body.name, body.attempt)
                ]
                need(not left, f"{body.name} is {replica.phase if replica else 'gone'} while {left} live")
                body.phase = replica.phase if replica is not None else ReplicaPhase.FAILED
                body.stopping |= replica is None
            self.ledger.note(body)

    def _crashes(self, body: Body) -> int:
        """Ends of its programs after which a kubelet starts them again, or gives the replica up."""
        ends = self._machine.ends.get((body.name, body.attempt), [])
        always = body.policy is InPlace.ALWAYS
        return sum(
            bool(code) or container == "proxy" or (always and container != "prepare")
            for container, code in ends
        )

    def lose_runner(self) -> None:
        """What has no end in the journal was lost with the runner, whatever became of it before."""
        for body in self.ledger.bodies.values():
            if body.uid in self._settled:
                continue
            self.ledger.taken.add(body.uid)
            body.crashes = self._crashes(body)
            body.phase, body.loss = ReplicaPhase.FAILED, Loss.EVICTION
            self.ledger.note(body)

    def check_record(self) -> None:
        """A status was written on top of another; one that a killed runner only wanted does not count."""
        before, decision, now = self.pending
        rules.check_record(self.ledger, before.job, before.status, decision.status)
        if before.status.completed is None:
            if self._profile.counts_exactly:
                self.auditor.check_losses(before.status, decision, self.seen, before.job)
            self.auditor.note(self.seen)
            self.auditor.check_end(before.status, decision, before.job, now)

    def check_action(self, job: Job, status: Status, action: Action) -> None:
        rules.check_action(self.ledger, job, status, self.seen, self.seen.admission, action)
        match action:
            case Start():
                self.starts[action.replica] = action
                if self._profile.counts_exactly:
                    self.auditor.check_start(job, action.replica, action.attempt)
            case Stop(uid=uid):
                self.ledger.bodies[uid].stopping = True
            case Release():
                alive = list(self._machine.processes.values())
                need(not alive, f"resources are given back while {alive} live")
            case _:
                pass


class CheckedBackend(LocalBackend):
    """The real backend; what it is told and what it answers is checked."""

    truth: Truth
    machine: Machine
    store: RunStore

    async def see(self, key: str, stored: Stored) -> Observation:
        self.machine.moment()
        seen = await super().see(key, stored)
        self.truth.look(seen)
        for replica in seen.replicas:
            how = f"{replica.phase} {replica.loss if replica.phase is ReplicaPhase.FAILED else ''}"
            flags = f"{replica.restarts or ''} {'stopping' if replica.stopping else ''}"
            self.machine.tell(f"    {replica.uid[:4]} {replica.name}.{replica.attempt} {how} {flags}")
        return seen

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> bool:
        is_due = False
        status = self.store.status
        losses = f"{status.crashes} crashes, {status.evictions} evictions"
        self.machine.tell(f"step: {status.phase}, attempt {status.attempt}, {losses}")
        for action in actions:
            self.machine.tell(f"    -> {str(action)[:100]}")
            self.machine.moment()
            self.truth.check_action(job, status, action)
            is_due = await super().act(key, job, (action,)) or is_due
        return is_due


class CheckedStore(RunStore):
    """The real store; what is recorded is checked."""

    truth: Truth

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        self.truth.pending = (before, decision, self._clock.time())
        await super().record(key, before, decision)


class Life:
    """One run with its guard, its user and everything that befalls it."""

    def __init__(self, seed: int, home: Path, loop: VirtualLoop) -> None:
        self._loop = loop
        self._rng = rng = Random(seed)
        self.profile = profiles.draw(rng)
        self.job = _runnable(jobs.draw(rng))
        serving = frozenset(role.name for role in self.job.roles if jobs.serves(self.job, role.name))
        self.machine = Machine(loop, rng, self.profile, serving)
        self.truth = Truth(self.machine, self.profile)
        self.clock = WallClock(loop)
        here = MachineId("here", "boot")
        context = RunContext(cwd=str(home), python="/usr/bin/python3", machine=here, created=0.0)
        made, lock = directory.create(home, Desired(self.job, {}), context)
        lock.close()
        self.run = SimulatedRun(home, made.id)
        self.run.machine, self.run.recorded = self.machine, self.truth.check_record
        self.ledger = SimulatedLedger(home, lambda: MACHINE, self._lives, rng)
        self.ledger.machine = self.machine
        self._rivals = RealLedger(home, lambda: MACHINE, self._lives, rng)
        directory.create(home, Desired(replace(self.job, name=RIVAL.name), {}), context)[1].close()
        self.deaths = 0
        self.runner: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def live(self) -> None:
        """Play until the run is at rest, long after the chaos."""
        loop = self._loop
        end = loop.time() + self.profile.chaos
        self._start_runner()
        while loop.time() < end:
            await self._wait(self._rng.expovariate(1 / self.profile.pause))
            if self.profile.mishaps:
                self._strike(self._rng.choice(self.profile.mishaps))
            if self.run.status().completed is not None and not self.is_served:
                break
        self._calm()
        limit = loop.time() + PATIENCE
        while loop.time() < limit:
            await self._wait(10.0)
            if not self.is_served and self.run.status().phase.is_final:
                break
        self._check_end()

    def bury(self) -> None:
        """The runner was killed: nothing of it runs any more, and its guard starts another."""
        self.deaths += 1
        self.machine.fuse = None
        self.machine.tell("the runner is killed")
        for task in asyncio.all_tasks(self._loop):
            if task.get_name() != "life":
                task.cancel()
        self.runner = None
        self.truth.lose_runner()
        self.machine.lose_runner()
        self._loop.call_later(self._rng.random() * 5.0, self._start_runner)

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self.runner is not None and self.runner.done():
            self.runner.result()  # raises what it ended with, which must be nothing

    def _lives(self, run: RunId) -> bool:
        return run == RIVAL or self.is_served

    @property
    def is_served(self) -> bool:
        return self.runner is not None and not self.runner.done()

    def _start_runner(self) -> None:
        if not self.is_served:
            self.machine.tell("a runner starts")
            self.truth.is_new = True
            self.runner = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        self._changed = changed = asyncio.Event()
        journal: Backlog[Entry] = Backlog(
            machines.SimulatedJournal(self.run, self.machine, self.truth.note),
            DiskRoom(self.run.path, self.clock),
        )

        def wake() -> None:
            if not self.machine.happens(self.profile.lost_wake):
                changed.set()

        async with asyncio.TaskGroup() as tasks:
            backend = CheckedBackend(
                self.run.id,
                run_environment.of(self.run),
                self.ledger,
                machines.Processes(self.machine),
                journal,
                tasks,
                wake,
                self.clock,
                self._rng,
            )
            store = CheckedStore(self.run, journal, self.clock)
            backend.truth = store.truth = self.truth
            backend.machine, backend.store = self.machine, store
            await carry_on(store, backend, changed, self.clock)
        self.machine.tell("the runner has nothing left to do")
        alive = list(self.machine.processes.values())
        need(not alive, f"{alive} outlive their runner")
        if control.needs_runner(self.run):
            # So does its guard: the user resumed the job while the runner was leaving.
            self._loop.call_soon(self._start_runner)

    def _strike(self, mishap: Mishap) -> None:
        machine, rng = self.machine, self._rng
        machine.tell(f"== {mishap}")
        match mishap:
            case Mishap.KILL_RUNNER if self.is_served:
                self.bury()
            case Mishap.KILL_SOON if self.is_served:
                machine.fuse = rng.randrange(60)
            case Mishap.KILL_RANK if machine.processes:
                rng.choice(list(machine.processes.values())).end(137)
            case Mishap.KILL_ZYGOTE:
                for process in machines.lose_zygotes(machine):
                    self._take(process.replica, process.attempt)
            case Mishap.DISK:
                machine.disk_is_full = not machine.disk_is_full
            case Mishap.SUSPEND:
                self._suspend(not self.run.desired().job.policy.suspend)
            case Mishap.RESUME:
                if self.run.status().phase is Phase.FAILED:
                    resumes = self.run.status().resumes + 1
                    self._edit(lambda job: replace(job, policy=replace(job.policy, resumes=resumes)))
            case Mishap.SCALE:
                self._edit(lambda job: jobs.scaled(rng, job))
            case Mishap.JUMP:
                self.clock.offset = rng.choice((-86_400.0, -300.0, -5.0, 5.0, 300.0))
            case Mishap.RIVAL:
                self._toggle_rival()
            case Mishap.WAKE:
                self._changed.set()
            case _:
                pass

    def _take(self, replica: str, attempt: int) -> None:
        for body in self.truth.ledger.living():
            if (body.name, body.attempt) == (replica, attempt):
                self.truth.ledger.taken.add(body.uid)

    def _toggle_rival(self) -> None:
        plain = self._rivals
        if any(claim.run == RIVAL for claim in plain.holders()):
            plain.release(RIVAL)
        else:
            demand = Demand("rival", Resources(cpu=self._rng.choice((4000, 12_000, 15_000))), ())
            plain.admit(RIVAL, 0, (demand,), self.clock.time())

    def _suspend(self, wish: bool) -> None:
        self._edit(lambda job: replace(job, policy=replace(job.policy, suspend=wish)))

    def _edit(self, change: Callable[[Job], Job]) -> None:
        """The user edits the job, and sees to it that there is a runner."""
        self.run.edit(lambda desired: replace(desired, job=change(desired.job)))
        self._changed.set()
        self._start_runner()

    def _calm(self) -> None:
        self.machine.tell("== calm")
        self.machine.calm_down()
        self._rivals.release(RIVAL)
        if self.run.desired().job.policy.suspend:
            self._suspend(False)
        self._changed.set()
        self._start_runner()

    def _check_end(self) -> None:
        status = self.run.status()
        need(
            not self.is_served,
            f"the runner never comes to rest: {status.phase} ({status.waiting}{status.trouble})",
        )
        need(status.phase.is_final, f"the run never ended: it is {status.phase}")
        alive = list(self.machine.processes.values())
        need(not alive, f"{alive} outlive the run")
        held = [claim.run for claim in self.ledger.holders()]
        need(self.run.id not in held, "resources are never given back")


def run(seed: int) -> Trace:
    """Live through one seed."""
    loop = VirtualLoop()
    loop.set_exception_handler(lambda loop, context: None)  # nobody waits for the tasks of a killed runner
    shm = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="bireme-", dir=shm if shm.is_dir() else None))
    before = set(os.listdir("/proc/self/fd"))
    violation = details = ""
    try:
        life = Life(seed, home, loop)
        try:
            _play(loop, life)
        except Exception as error:  # Whatever the runner raises is a finding too.
            violation, details = _told(error)
        status = life.run.status()
        return Trace(
            seed,
            life.truth.steps,
            life.deaths,
            life.job,
            life.profile,
            status,
            tuple(life.machine.told),
            violation,
            details,
        )
    finally:
        _drop(loop)
        _close(home, before)
        shutil.rmtree(home, ignore_errors=True)


def _play(loop: VirtualLoop, life: Life) -> None:
    task = loop.create_task(life.live(), name="life")
    while not task.done():
        try:
            loop.run_until_complete(task)
        except Killed:
            # Each group of tasks raises it once more on its way up.
            if life.runner is not None:
                life.bury()
    task.result()


def _drop(loop: VirtualLoop) -> None:
    """End what is left, so that nothing of one seed is alive in the next."""
    while tasks := asyncio.all_tasks(loop):
        for task in tasks:
            task.cancel()
        try:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        except (Killed, Exception):
            continue
    loop.close()


def _close(home: Path, before: set[str]) -> None:
    """A killed process has no open files; here they have to be closed."""
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            # A number that was in use before may have been given to a file of this run since.
            if target.startswith(str(home)) or (target.startswith("pipe:") and name not in before):
                os.close(int(name))
        except OSError:
            continue


def _told(error: BaseException) -> tuple[str, str]:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, rules.Violation):
        return str(error), ""
    return repr(error), "".join(traceback.format_exception(error))


def _runnable(job: Job) -> Job:
    """The job as it is submitted here: each container has a program, and replicas may outlive a success."""
    roles = []
    for role in job.roles:
        pod = role.pod
        containers, inits = (
            tuple(replace(one, command=(f"/simulated/{one.name}",)) for one in group)
            for group in (pod.containers, pod.init_containers)
        )
        roles.append(replace(role, pod=replace(pod, containers=containers, init_containers=inits)))
    policy = job.policy if job.policy.linger is not None else replace(job.policy, linger=30.0)
    return replace(job, roles=tuple(roles), policy=policy)
