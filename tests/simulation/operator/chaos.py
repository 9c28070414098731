"""What happens to a simulated cluster from outside, and when it stops happening."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from bireme.backends.kubernetes.objects.job_objects import ATTEMPT
from tests.simulation.operator import manifests
from tests.simulation.operator.history import Story
from tests.simulation.operator.kubelet import Kubelet
from tests.simulation.operator.network import Network
from tests.simulation.operator.nodes import Nodes
from tests.simulation.operator.operators import Operators
from tests.simulation.operator.profiles import Leaders, Misfortune, Profile
from tests.simulation.operator.rules import PLURALS, Rules
from tests.simulation.operator.server import PODS, Refused, Server, Told, Tree, key_of, owner_of
from tests.simulation.operator.simulated_pod import Body

DEPENDENTS = (
    PODS,
    "services",
    "configmaps",
    "secrets",
    "serviceaccounts",
    "roles",
    "rolebindings",
    "horizontalpodautoscalers",
    "podgroups",
)


MOST_JOBS = 8


class Cluster:
    """Everything that a simulation consists of."""

    def __init__(
        self,
        rng: Random,
        profile: Profile,
        story: Story,
        server: Server,
        nodes: Nodes,
        kubelet: Kubelet,
    ) -> None:
        self.rng, self.profile, self.story = rng, profile, story
        self.server, self.nodes, self.kubelet = server, nodes, kubelet
        self.network: Network
        self.operators: Operators
        self.rules: Rules
        self.quota_until = 0.0
        self.most_pods = float("inf")
        """A quota that stays."""
        self.refused = 0
        nodes.expelled = self._expel
        nodes.removed = self._collect
        server.listeners.append(self._hear)

    def may_create(self, plural: str) -> None:
        full = len(self.server.objects[PODS]) >= self.most_pods
        if plural == PODS and (full or self.story.now < self.quota_until):
            self.refused += 1
            raise Refused(403, "Forbidden", "exceeded quota: no more pods are allowed")

    def after(self, delay: float, do: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay, do)

    def _expel(self, node: str) -> None:
        for body in self.kubelet.on_node(node):
            if not body.stopping:
                self.kubelet.take(body, "DeletionByTaintManager")

    def _collect(self, node: str) -> None:
        for body in self.kubelet.on_node(node):
            self.kubelet.collect(body)

    def _hear(self, told: Told) -> None:
        """The garbage collector removes what belongs to nobody any more."""
        if told.plural in PLURALS and told.type == "DELETED":
            uid = told.tree["metadata"]["uid"]
            self.after(5.0 * self.rng.random(), lambda: self._sweep(uid))
        if told.plural in DEPENDENTS and told.type == "ADDED":
            uid = owner_of(told.tree)
            if not any(self.server.find(plural, uid) for plural in PLURALS):
                self.after(5.0 * self.rng.random(), lambda: self._sweep(uid))

    def _sweep(self, uid: str) -> None:
        for plural in DEPENDENTS:
            for tree in [one for one in self.server.objects[plural].values() if owner_of(one) == uid]:
                self.server.delete(plural, key_of(tree))


class Chaos:
    """One misfortune after the other, until calm."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._rng, self._profile = cluster, cluster.rng, cluster.profile
        self._story, self._server, self._kubelet = cluster.story, cluster.server, cluster.kubelet
        self._operators = cluster.operators
        self.over = False
        self._submitted = 0

    def begin(self) -> None:
        self._operators.add()
        if self._profile.leaders is Leaders.LEASE:
            self._operators.add()
        self._want_more()
        self._cluster.after(self._profile.chaos, self.calm)
        self._cluster.after(1.0, self._staff)
        if self._profile.misfortunes:
            self._cluster.after(self._pause(), self._strike)

    def _want_more(self) -> None:
        """Users keep some jobs going, for as long as there is chaos."""
        if self.over or self._submitted == MOST_JOBS:
            return
        if self._cluster.rules.unfinished() < self._profile.jobs:
            self._submitted += 1
            self._submit(self._submitted)
        self._cluster.after(10.0 * self._rng.random(), self._want_more)

    def _submit(self, number: int) -> None:
        tree = manifests.draw(self._rng, number, self._profile.finalizer)
        if self.over:
            tree["spec"] = manifests.suspended(tree, False)
        self._story.tell(f"a user creates {tree['kind']} {tree['metadata']['name']}")
        self._server.create(_plural(tree), manifests.NAMESPACE, tree)

    def calm(self) -> None:
        """From now on everything goes well, and whoever was put aside comes back."""
        self._story.tell("calm")
        self.over = True
        cluster = self._cluster
        cluster.network.calm = cluster.network.watches.calm = True
        cluster.quota_until = 0.0
        cluster.nodes.mend_all()
        self._kubelet.hurry()
        for one in self._operators.living():
            one.line.cut_until = one.line.no_lease_until = 0.0
        for tree in self._jobs():
            if tree["spec"]["runPolicy"].get("suspend"):
                self._edit(tree, manifests.suspended(tree, False))

    def _staff(self) -> None:
        """A deployment: whoever is dead is replaced."""
        wanted = 2 if self._profile.leaders is Leaders.LEASE else 1
        if len(self._operators.living()) < wanted:
            self._operators.add()
        self._cluster.after(0.5 + 3.0 * self._rng.random(), self._staff)

    def _strike(self) -> None:
        if self.over:
            return
        self._cluster.after(self._pause(), self._strike)
        misfortune = self._rng.choice(self._profile.misfortunes)
        self._story.tell(misfortune)
        match misfortune:
            case Misfortune.KILL | Misfortune.PARTITION | Misfortune.NO_LEASE:
                self._strike_operator(misfortune)
            case Misfortune.CUT_NODE | Misfortune.KILL_NODE | Misfortune.REMOVE_NODE:
                self._strike_node(misfortune)
            case Misfortune.QUOTA:
                self._cluster.quota_until = self._story.now + 30.0 * self._rng.random()
            case Misfortune.COMPACT:
                self._server.compacted = self._server.version
            case Misfortune.SUSPEND | Misfortune.SCALE | Misfortune.TOUCH | Misfortune.DELETE_JOB:
                self._strike_job(misfortune)
            case _:
                self._strike_pod(misfortune)

    def _strike_operator(self, misfortune: Misfortune) -> None:
        living = self._operators.living()
        if not living:
            return
        one = self._rng.choice(living)
        until = self._story.now + self._rng.choice((5.0, 25.0, 70.0)) * self._rng.random()
        if misfortune is Misfortune.PARTITION:
            one.line.cut_until = until
        elif misfortune is Misfortune.NO_LEASE:
            one.line.no_lease_until = until
        elif self._profile.leaders is Leaders.OVERLAP:
            if len(living) == 1:
                self._operators.add()
                self._cluster.after(15.0 * self._rng.random(), one.kill)
        else:
            one.kill()

    def _strike_node(self, misfortune: Misfortune) -> None:
        nodes = self._cluster.nodes
        node = self._rng.choice(nodes.all())
        for body in self._kubelet.on_node(node):
            body.taken = body.taken or body.phase not in ("Succeeded", "Failed")
        if misfortune is not Misfortune.CUT_NODE:
            self._kubelet.power_off(node)
        if misfortune is Misfortune.REMOVE_NODE:
            nodes.remove(node)
        else:
            nodes.silence(node)

    def _strike_pod(self, misfortune: Misfortune) -> None:
        living = self._kubelet.living()
        if not living:
            return
        body = self._rng.choice(living)
        match misfortune:
            case Misfortune.EVICT:
                self._kubelet.evict(body)
            case Misfortune.PREEMPT:
                self._kubelet.take(body, "PreemptionByScheduler")
            case Misfortune.RELABEL:
                self._relabel(body)
            case _:
                self._delete(body, force=misfortune is Misfortune.FORCE_DELETE_POD)

    def _relabel(self, body: Body) -> None:
        """Where nobody has seen the pod yet, nobody can tell any more what it is of: it may be replaced."""
        body.unlabelled = True
        labels = relabelled(self._server, body, self._rng.choice((None, "", "x")))
        self._story.tell(f"    {body.uid} {body.name} now has {labels}")

    def _delete(self, body: Body, *, force: bool) -> None:
        body.taken = True
        body.forced = body.forced or force
        self._server.delete(PODS, body.key, body.uid, 0 if force else None)

    def _strike_job(self, misfortune: Misfortune) -> None:
        jobs = self._jobs()
        if not jobs or self.over:
            return
        tree = self._rng.choice(jobs)
        if misfortune is not Misfortune.DELETE_JOB and self._rng.random() < 0.3:
            # Users change their mind.
            self._cluster.after(2.0 * self._rng.random(), lambda: self._strike_job(misfortune))
        match misfortune:
            case Misfortune.SUSPEND:
                self._edit(tree, manifests.suspended(tree, not tree["spec"]["runPolicy"].get("suspend")))
            case Misfortune.SCALE:
                self._edit(tree, manifests.scaled(self._rng, tree))
            case Misfortune.TOUCH:
                labels = {**tree["metadata"].get("labels", {}), "touched": str(self._story.now)}
                metadata = {**tree["metadata"], "labels": labels}
                self._server.change(_plural(tree), key_of(tree), metadata=metadata)
            case Misfortune.DELETE_JOB:
                self._server.delete(_plural(tree), key_of(tree))
                if self._rng.random() < 0.7:
                    number = int(tree["metadata"]["name"].rpartition("-")[2])
                    self._cluster.after(5.0 * self._rng.random(), lambda: self._submit(number))

    def _edit(self, tree: Tree, spec: Tree) -> None:
        self._cluster.rules.edited[tree["metadata"]["uid"]] = self._story.now
        self._server.change(_plural(tree), key_of(tree), spec=spec)

    def _jobs(self) -> list[Tree]:
        return [one for plural in PLURALS for one in self._server.objects[plural].values()]

    def _pause(self) -> float:
        return self._rng.expovariate(1 / self._profile.pause)


def relabelled(server: Server, body: Body, attempt: str | None) -> dict[str, str]:
    """Gives a pod another attempt, or none, and returns its labels."""
    metadata = server.get(PODS, body.key)["metadata"]
    labels = {name: value for name, value in metadata["labels"].items() if name != ATTEMPT}
    labels |= {ATTEMPT: attempt} if attempt is not None else {}
    server.change(PODS, body.key, metadata={**metadata, "labels": labels})
    return labels


def _plural(tree: Tree) -> str:
    return f"{tree['kind'].lower()}s"
