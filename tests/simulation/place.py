"""Where do simulated replicas run: a backend with nodes, queues, delays and faults, and a store beside it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
from msgspec.structs import replace

from bireme.engine.step import Conflict, Stored
from bireme.model.decisions import Abandon, Action, Admit, Decision, Release, SharedFile, Start, Stop
from bireme.model.job import Job, RestartScope
from bireme.model.replicas import (
    Address,
    Addresses,
    Admission,
    Fault,
    Granted,
    Loss,
    Observation,
    Replica,
    Waiting,
)
from bireme.model.status import Status
from tests.simulation import jobs, rules
from tests.simulation.audit import Auditor
from tests.simulation.clock import Clock
from tests.simulation.profiles import Misfortune, Profile
from tests.simulation.rules import Ledger
from tests.simulation.simulated_replica import Body, Kubelet

EVICTION_TIMEOUT = 40.0
"""Seconds after which replicas on a node that does not answer are removed by the place itself."""


class Killed(BaseException):
    """The engine dies here."""


class Place:
    """A backend and a store in memory, with real semantics; each of their methods is a moment to die in."""

    def __init__(
        self, clock: Clock, rng: Random, profile: Profile, job: Job, wake: Callable[[], None]
    ) -> None:
        self.clock, self.rng, self.profile, self.job = clock, rng, profile, job
        self._wake = wake
        self.kubelet = Kubelet(clock, rng, profile, self._changed)
        self.ledger = Ledger()
        self.auditor = Auditor(self.ledger)
        self.wall: Callable[[], float] = lambda: clock.now
        self.calm = False
        self.moments: int | None = None
        """How many more moments the engine lives in this step."""
        self.jostle: Callable[[], None] = lambda: None
        self.loaded = job
        self.version = 0
        self._written = msgspec.json.encode(Status())
        self._status: Status | None = Status()
        self.bodies: dict[str, Body] = {}
        self.view: dict[str, Replica] = {}
        self.cut_off: set[int] = set()
        self.admission: Admission | None = None
        self._held: Granted | None = None
        self._asked = 0
        self.faults: dict[str, Fault] = {}
        self._refused_at: float | None = None
        self.seen = Observation()
        self._count = 0

    # The store.

    @property
    def status(self) -> Status:
        """What was recorded last; a new engine reads it from where it was written."""
        if self._status is None:
            self._status = msgspec.json.decode(self._written, type=Status)
        return self._status

    def forget(self) -> None:
        """The engine died, and with it all that was only in memory."""
        self._status = None
        if self.admission is not None and not self.living() and self.rng.random() < 0.3:
            self.admission = self._held = None

    def edit(self, job: Job) -> None:
        """The user changes the job."""
        self.job = job
        self.version += 1
        self._wake()

    async def load(self, key: str) -> Stored | None:
        self._moment()
        self.loaded = self.job
        return Stored(self.job, self.status, str(self.version))

    async def record(self, key: str, before: Stored, decision: Decision) -> None:
        self._moment()
        if before.version != str(self.version) or self._happens(self.profile.conflict):
            raise Conflict
        rules.check_record(self.ledger, before.job, before.status, decision.status)
        if before.status.completed is None:
            self._audit(before, decision)
        self._written = msgspec.json.encode(decision.status)
        self._status = decision.status
        self.version += 1

    def _audit(self, before: Stored, decision: Decision) -> None:
        if self.profile.counts_exactly:
            self.auditor.check_losses(before.status, decision, self.seen, before.job)
        self.auditor.note(self.seen)
        self.auditor.trials.note(before.status, decision, self.seen, before.job, self.wall(), self._is_steady)
        self.auditor.check_end(before.status, decision, before.job, self.wall())

    @property
    def _is_steady(self) -> bool:
        """Whether the clock tells how long something lasted."""
        return Misfortune.JUMP not in self.profile.misfortunes

    # The backend.

    async def see(self, key: str, stored: Stored) -> Observation:
        self._moment()
        if self._happens(self.profile.blind):
            some = tuple(one for one in self.view.values() if self.rng.random() < 0.5)
            self.seen = Observation(some, complete=False)
            return self.seen
        faults = tuple(self.faults.values())
        if not self.profile.faults_stay:
            self.faults.clear()
        self.seen = Observation(tuple(self.view.values()), self.admission, faults)
        return self.seen

    async def publish(self, key: str, files: tuple[SharedFile, ...]) -> None:
        self._moment()

    async def act(self, key: str, job: Job, actions: tuple[Action, ...]) -> bool:
        starts = [one for one in actions if isinstance(one, Start)]
        if starts:
            if self._refused_at is not None and self._shows_refusals:
                rules.check_try(starts, self.wall() - self._refused_at)
            self.faults.clear()
        try:
            for action in actions:
                if not isinstance(action, Start) or not self.faults:
                    self._carry_out(job, action)
        finally:
            if starts:
                self._refused_at = self.wall() if self.faults else None
        return False

    @property
    def _shows_refusals(self) -> bool:
        """Whether every refusal is heard of, and by a clock that tells how long ago it was."""
        return self.profile.faults_stay and Misfortune.JUMP not in self.profile.misfortunes

    def _carry_out(self, job: Job, action: Action) -> None:
        self._moment()
        rules.check_action(self.ledger, job, self.status, self.seen, self.admission, action)
        if isinstance(action, Start) and self.profile.counts_exactly:
            self.auditor.check_start(job, action.replica, action.attempt)
        self._act(action)
        if self._happens(self.profile.twice):
            self._act(action)
            if isinstance(action, Stop):  # It names a uid, so that even a late repetition harms nobody.
                self.clock.after(self.rng.random() * 10.0, lambda: self._act(action))

    def _act(self, action: Action) -> None:
        match action:
            case Admit():
                self._admit(action)
            case Release():
                self.admission = self._held = None
                self._asked += 1
                self._wake()
            case Start():
                self._start(action)
            case Stop():
                self._stop(action)
            case Abandon():
                self._strike_off(action.uid)

    def _admit(self, asked: Admit) -> None:
        names = frozenset(one.replica for one in asked.demands)
        book = {one.replica: Address("127.0.0.1", dict.fromkeys(one.ports, 1)) for one in asked.demands}
        grant = Granted(asked.attempt, names, Addresses(book) if self.profile.here else Addresses())
        if self.admission == grant:
            return
        held = self._held.replicas if self._held is not None else frozenset[str]()
        if names <= held or not self._happens(0.7 if self.profile.queue else 0.0):
            self._grant(grant)
        elif not isinstance(self.admission, Waiting) or self.admission.attempt != asked.attempt:
            self.admission = Waiting(asked.attempt, f"waits for {len(names)} cpu")
            self._asked += 1
            number = self._asked
            self.clock.after(self.rng.random() * self.profile.queue, lambda: self._grant(grant, number))
            self._wake()

    def _grant(self, grant: Granted, number: int | None = None) -> None:
        if number is not None and (number != self._asked or not isinstance(self.admission, Waiting)):
            return
        self.admission = self._held = grant
        self._wake()

    def _start(self, start: Start) -> None:
        self.faults.pop(start.replica, None)
        if any(one.name == start.replica for one in self.bodies.values()):
            return  # It was started already.
        full = self.profile.quota and len(self.living()) >= self.profile.quota and not self.calm
        if full or self._happens(self.profile.start_fault):
            final = self._happens(self.profile.final_fault)
            self.faults[start.replica] = Fault(start.replica, "quota exceeded", final=final)
            self._wake()
            return
        self._count += 1
        body = Body(
            f"{start.replica}/{start.attempt}/{self._count}", start, self.rng.randrange(self.profile.nodes)
        )
        body.endless = jobs.serves(self.job, start.role)
        self.bodies[body.uid] = body
        self.ledger.note(body)
        self._show(body)
        self.clock.after(self.rng.random() * (1.0 if self.calm else 5.0), lambda: self.kubelet.begin(body))

    def _stop(self, stop: Stop) -> None:
        body = self.bodies.get(stop.uid)
        if body is None:
            self._unshow(stop.uid)
        elif body.alive:
            grace = body.start.pod.grace if stop.grace is None else stop.grace
            self.remove(body, grace)
            self.view[body.uid] = replace(self.view[body.uid], stopping=True)
        else:
            self._forget(body)

    def remove(self, body: Body, grace: float) -> None:
        """Somebody asks a replica to end."""
        if body.node in self.cut_off:
            body.stopping = True
            self.clock.after(grace, lambda: self._give_up(body))
        else:
            self.kubelet.stop(body, grace)

    def _forget(self, body: Body) -> None:
        """We removed what is left of a dead replica: from now on no view may show it untouched."""
        body.stopping = True
        del self.bodies[body.uid]
        if self.profile.finalizers and self._happens(0.5):
            self.view[body.uid] = replace(self.view[body.uid], stopping=True)
            self.clock.after(self.rng.random() * 3.0, lambda: self._unshow(body.uid))
        else:
            self._unshow(body.uid)

    def _give_up(self, body: Body) -> None:
        """A replica is past its grace and its node does not answer."""
        if body.uid in self.bodies and body.node in self.cut_off:
            body.abandoned = True
            self._show(body)
            self._wake()

    def _strike_off(self, uid: str) -> None:
        body = self.bodies.pop(uid, None)
        if body is not None:
            body.abandoned = True
        self._unshow(uid)

    # What happens by itself.

    def living(self) -> list[Body]:
        return [one for one in self.bodies.values() if one.alive]

    def evict(self, body: Body) -> None:
        self.ledger.taken.add(body.uid)
        self.kubelet.finish(body, 137, Loss.EVICTION)
        if self.job.unit is RestartScope.GANG and self._happens(self.profile.tells):
            for peer in [one for one in self.living() if one.attempt == body.attempt and not one.stopping]:
                self.kubelet.echo(peer)

    def vanish(self, body: Body) -> None:
        """Nothing is left of a replica, at once."""
        self.ledger.taken.add(body.uid)
        self.kubelet.finish(body, 137, Loss.EVICTION)
        self._bury(body)

    def delete(self, body: Body) -> None:
        """Somebody else removes a replica."""
        self.ledger.taken.add(body.uid)
        body.stopping = True
        self.remove(body, body.start.pod.grace)
        self._changed(body)

    def cut(self, node: int) -> None:
        """A node does not answer any more; after a while the place removes what runs there."""
        self.cut_off.add(node)
        for body in self.bodies.values():
            if body.node == node and body.alive:
                self.ledger.taken.add(body.uid)
                self.clock.after(EVICTION_TIMEOUT, lambda body=body: self._expel(body))  # type: ignore[misc]
        self._show_node(node)

    def mend(self, node: int) -> None:
        """A node answers again; what was to be removed there is, and so is what was struck off."""
        self.cut_off.discard(node)
        self._show_node(node)
        for body in [one for one in self.ledger.bodies.values() if one.node == node and one.stopping]:
            body.abandoned = body.uid not in self.bodies
            if body.alive:
                self.kubelet.stop(body, 0.0)
            else:
                self._bury(body)

    def _expel(self, body: Body) -> None:
        if body.node in self.cut_off and body.uid in self.bodies and not body.stopping:
            self.remove(body, body.start.pod.grace)
            self._changed(body)

    def _changed(self, body: Body) -> None:
        """Something became of a replica; it is seen now or later."""
        self.ledger.note(body)
        if body.uid not in self.bodies or body.node in self.cut_off:
            return
        if body.stopping and not body.alive:
            if self.profile.finalizers and self.rng.random() < 0.5:
                self.clock.after(self.rng.random() * 3.0, lambda: self._bury(body))
            else:
                self._bury(body)
                return
        self._later(lambda: self._show(body))

    def _bury(self, body: Body) -> None:
        if self.bodies.pop(body.uid, None) is not None:
            self._later(lambda: self._unshow(body.uid))

    def _later(self, do: Callable[[], None]) -> None:
        if self.calm or not self.profile.lag:
            do()
        else:
            self.clock.after(self.rng.random() * self.profile.lag, do)

    def _show(self, body: Body) -> None:
        if body.uid in self.bodies:
            self.view[body.uid] = body.shown(reachable=body.node not in self.cut_off)
            self._wake()

    def _show_node(self, node: int) -> None:
        for body in self.bodies.values():
            if body.node == node:
                self._show(body)

    def _unshow(self, uid: str) -> None:
        if self.view.pop(uid, None) is not None:
            self._wake()

    def _happens(self, chance: float) -> bool:
        return not self.calm and self.rng.random() < chance

    def _moment(self) -> None:
        if self.moments is not None:
            self.moments -= 1
            if self.moments < 0:
                raise Killed
        if self._happens(self.profile.jostle):
            self.jostle()
