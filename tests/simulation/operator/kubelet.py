"""How do the pods of a simulated cluster live: they are placed, run, end, are started again and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from bireme.backends.kubernetes.objects.job_status import timestamp
from bireme.backends.kubernetes.observe.pod_diagnosis import NO_TRACE
from bireme.core.restarts import backoff
from tests.simulation.operator.gangs import GangScheduler
from tests.simulation.operator.history import Story
from tests.simulation.operator.nodes import Nodes
from tests.simulation.operator.profiles import Profile
from tests.simulation.operator.server import PODS, Refused, Server, Told, is_deleting
from tests.simulation.operator.simulated_pod import EVICTED, Body

CODES = (1, 2, 127, 134, 137, 139, 143, 255)
"""Exit codes of programs that crash."""
FINAL = ("Succeeded", "Failed")
HANGING = 1e7
"""Seconds until a program ends that never does."""


class Kubelet:
    """The scheduler and every node's kubelet: what they know of a pod is true."""

    def __init__(self, server: Server, nodes: Nodes, rng: Random, profile: Profile, story: Story) -> None:
        self._server, self._nodes, self._rng, self._profile, self._story = server, nodes, rng, profile, story
        self.bodies: dict[str, Body] = {}
        """Everybody who ever was, by uid."""
        self.calm = False
        self.can_meet: Callable[[Body], bool] = lambda body: True
        """Whether a program finds its peers by their names."""
        self.gangs = GangScheduler(server, rng, profile.scheduler)
        self.gangs.place = self._bind
        server.listeners.append(self._hear)
        nodes.returned = self._sync

    def living(self) -> list[Body]:
        """The pods whose program runs, as far as the API server can know."""
        return [one for one in self.bodies.values() if one.alive and not one.gone and not one.stopping]

    def hurry(self) -> None:
        """Chaos is over: whoever hangs, and whoever works, comes to its end."""
        self.calm = True
        for body in self.bodies.values():
            if body.alive and not body.endless and not body.stopping:
                self._end_after(body, 1.0 + 9.0 * self._rng.random(), 0)

    def evict(self, body: Body) -> None:
        """Its node ends it, and says so."""
        if self._nodes.answers(body.node):
            body.taken = True
            body.reason, body.disrupted = EVICTED, "TerminationByKubelet"
            self._finish(body, 137, "Failed")

    def take(self, body: Body, why: str) -> None:
        """Somebody in the cluster asks for the pod's end, and says why."""
        if body.gone or body.phase in FINAL:
            return
        body.taken = True
        body.disrupted = why
        status = self._server.get(PODS, body.key)["status"]
        target = {"type": "DisruptionTarget", "status": "True", "reason": why}
        conditions = [*status.get("conditions", ()), target]
        self._server.change(PODS, body.key, status={**status, "conditions": conditions})
        self._server.delete(PODS, body.key, body.uid)

    def collect(self, body: Body) -> None:
        """The machine of a pod is gone: the cluster strikes the pod off."""
        if not body.gone:
            body.taken = True
            self._server.delete(PODS, body.key, body.uid, 0)

    def on_node(self, node: str) -> list[Body]:
        return [one for one in self.bodies.values() if one.node == node and not one.gone]

    def power_off(self, node: str) -> None:
        """Every program of a node ends, and nobody tells."""
        for body in self.bodies.values():
            if body.node == node and body.alive:
                body.alive, body.exit, body.reason = False, 137, NO_TRACE

    # What the API server tells.

    def _hear(self, told: Told) -> None:
        if told.plural != PODS:
            return
        if told.type == "ADDED":
            self._met(told)
            return
        body = self.bodies[told.tree["metadata"]["uid"]]
        if told.type == "DELETED":
            body.gone = True
            body.forced = body.forced or body.alive
            self._after(self._rng.random(), lambda: self._kill(body))
        elif is_deleting(told.tree) and not body.stopping:
            body.stopping = True
            grace = float(told.tree["metadata"]["deletionGracePeriodSeconds"])
            self._after(self._rng.random() * 0.5, lambda: self._stop(body, grace))

    def _met(self, told: Told) -> None:
        body = Body(told.tree)
        self.bodies[body.uid] = body
        if any(name.startswith("example.com") for name in told.tree["metadata"].get("finalizers", ())):
            self._after(10.0 * self._rng.random(), lambda: self._let_go(body))
        self._after(self._rng.random() * (0.5 if self.calm else 3.0), lambda: self._bind(body))

    def _let_go(self, body: Body) -> None:
        """Whoever held the pod takes its finalizer off: it goes, if its end was all that was missing."""
        if body.gone:
            return
        tree = self._server.get(PODS, body.key)
        metadata = {name: value for name, value in tree["metadata"].items() if name != "finalizers"}
        self._server.change(PODS, body.key, metadata=metadata)
        if metadata.get("deletionGracePeriodSeconds") == 0:
            self._server.remove(body.key, body.uid)

    # A pod's beginning.

    def _bind(self, body: Body) -> None:
        if body.gone or body.stopping or body.node:
            return
        if not self.gangs.finds_room(body):
            body.turned_away = body.turned_away or timestamp(self._story.now) or ""
            self._server.change(PODS, body.key, status=body.status())
            return
        ready = self._nodes.ready()
        if not ready:
            self._after(5.0, lambda: self._bind(body))
            return
        body.node = self._rng.choice(ready)
        tree = self._server.get(PODS, body.key)
        self._server.change(PODS, body.key, spec={**tree["spec"], "nodeName": body.node})
        self._after(self._rng.random() * (0.5 if self.calm else 2.0), lambda: self._begin(body))

    def _begin(self, body: Body) -> None:
        if body.gone or body.stopping or body.started or not self._nodes.answers(body.node):
            return
        if not self.calm and self._rng.random() < self._profile.no_image:
            body.waits_for = self._rng.choice(("ErrImagePull", "ImagePullBackOff"))
            self._report(body)
            self._after(10.0, lambda: self._begin(body))
            return
        body.started = True
        self._run(body)

    def _become_ready(self, body: Body) -> None:
        if body.alive and not body.ready:
            body.ready = True
            self._report(body)

    def _run(self, body: Body) -> None:
        """The program runs for a while, and what comes of it is drawn now."""
        body.alive, body.phase, body.waits_for = True, "Running", ""
        body.runs += 1
        self._report(body)
        self._after(self._rng.random(), lambda: self._become_ready(body))
        duration, code = self._rng.expovariate(1 / self._profile.work), 0
        fate = self._rng.random()
        if self.calm:
            duration = min(duration, 20.0)
        elif fate < self._profile.crash:
            code = self._rng.choice(CODES)
        elif fate < self._profile.crash + self._profile.hang:
            duration = HANGING
        self._end_after(body, HANGING if body.endless and not code else duration, code)

    # A program's end.

    def _end_after(self, body: Body, duration: float, code: int) -> None:
        run = body.runs
        self._after(duration, lambda: self._ended(body, run, code))

    def _ended(self, body: Body, run: int, code: int) -> None:
        if not body.alive or body.runs != run or body.stopping:
            return
        if not code and not self.can_meet(body):
            self._end_after(body, 5.0, code)
            return
        body.alive = body.ready = False
        body.exit = code
        self._story.tell(f"    {body.name} {body.uid} ends with {code}")
        if body.policy == "Always" or (body.policy == "OnFailure" and code):
            self._pause(body)
            return
        body.fell = body.fell or bool(code)
        self._finish(body, code, "Failed" if code else "Succeeded")

    def _pause(self, body: Body) -> None:
        """The program is started again in place, after a while."""
        body.restarts += 1
        body.waits_for = "CrashLoopBackOff"
        self._report(body)
        self._after(max(0.1, backoff.in_place(body.restarts)), lambda: self._again(body))

    def _again(self, body: Body) -> None:
        rests = body.phase == "Running" and not (body.alive or body.gone or body.stopping)
        if rests and self._nodes.answers(body.node):
            self._run(body)

    def _finish(self, body: Body, code: int, phase: str) -> None:
        body.alive = body.ready = False
        body.exit, body.phase, body.waits_for = code, phase, ""
        body.is_settled = bool(body.reason)
        self._after(self._rng.random() * 0.3, lambda: self._report(body))
        self._after(0.3 + self._rng.random(), lambda: self._settle(body))

    def _settle(self, body: Body) -> None:
        """A kubelet tells that a program has ended, and a little later that the pod has."""
        body.is_settled = True
        self._report(body)

    # A pod's removal.

    def _stop(self, body: Body, grace: float) -> None:
        """Ask the program to end, and kill it after the grace."""
        if not self._nodes.answers(body.node):
            return
        if not body.alive:
            self._stopped(body, 137 if body.exit is None else body.exit)
            return
        reaction = self._rng.random()
        if reaction < 0.5:
            self._after(min(grace, self._rng.random()), lambda: self._stopped(body, 143))
        elif reaction < 0.7:
            self._after(min(grace, 2.0 * self._rng.random()), lambda: self._stopped(body, 0))
        self._after(grace, lambda: self._stopped(body, 137))

    def _stopped(self, body: Body, code: int) -> None:
        """The program is dead; its kubelet says so, and strikes the pod off."""
        if body.gone or not self._nodes.answers(body.node):
            return
        body.alive = body.ready = False
        if body.phase not in FINAL:
            body.exit, body.phase = code, "Failed" if code else "Succeeded"
        body.is_settled = True
        self._report(body)
        self._after(self._rng.random(), lambda: self._strike_off(body))

    def _strike_off(self, body: Body) -> None:
        if not body.gone and self._nodes.answers(body.node):
            self._server.remove(body.key, body.uid)

    def _kill(self, body: Body) -> None:
        """A kubelet ends whatever the API server does not know."""
        if self._nodes.answers(body.node) or not self._nodes.exists(body.node):
            body.alive = False

    # A node's return.

    def _sync(self, node: str) -> None:
        """A kubelet answers again: it does what it missed, and tells what is true."""
        for body in [one for one in self.bodies.values() if one.node == node]:
            if body.gone:
                self._after(self._rng.random(), lambda body=body: self._kill(body))  # type: ignore[misc]
            elif body.stopping:
                self._after(self._rng.random(), lambda body=body: self._stop(body, 1.0))  # type: ignore[misc]
            elif not body.started:
                self._begin(body)
            elif body.reason == NO_TRACE and body.phase == "Running":
                self._revive(body)
            else:
                self._report(body)
                self._again(body)

    def _revive(self, body: Body) -> None:
        """Its program was lost with its node: it is started again where that may be."""
        if body.policy == "Never":
            self._finish(body, 137, "Failed")
            return
        body.reason = ""
        self._pause(body)

    def _report(self, body: Body) -> None:
        if body.gone or not self._nodes.answers(body.node):
            return
        try:
            self._server.change(PODS, body.key, status=body.status())
        except Refused:
            self._story.breaks(f"{body.uid} is not gone and not known")

    def _after(self, delay: float, do: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay, do)
