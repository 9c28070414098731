"""What must hold in a simulated cluster whenever an operator asks for something, and at the end.

The rules look at what is true: at bodies, not at what anybody believes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from bireme import errors, kinds
from bireme.backends.kubernetes.objects import job_objects, job_status, pod_builder
from bireme.backends.kubernetes.objects.api_types import seconds
from bireme.backends.kubernetes.objects.job_objects import ATTEMPT, JobObject
from bireme.kinds import SERVED
from bireme.manifest import read
from bireme.model.job import CleanPods, Job, replica_ids
from bireme.model.status import Status
from tests.simulation import rules
from tests.simulation.operator.answering import Guard
from tests.simulation.operator.history import Story
from tests.simulation.operator.kubelet import FINAL, Kubelet
from tests.simulation.operator.nodes import Nodes
from tests.simulation.operator.operators import Operators
from tests.simulation.operator.server import PODS, Server, Tree, key_of, owner_of
from tests.simulation.operator.simulated_pod import Body
from tests.simulation.operator.watches import LONGEST_STALL
from tests.simulation.rules import Ledger, Violation, need

PLURALS = tuple(kinds.named(kind).plural for kind in SERVED)
OLD_NEWS = 2 * LONGEST_STALL
"""Seconds after which an operator must have heard of a change."""


class Rules(Guard):
    """Stands at the server's door; a broken rule ends the story."""

    def __init__(
        self,
        server: Server,
        kubelet: Kubelet,
        nodes: Nodes,
        story: Story,
        operators: Callable[[], Operators],
    ) -> None:
        self._server, self._kubelet, self._nodes, self._story = server, kubelet, nodes, story
        self._operators = operators
        self._ledgers: dict[str, Ledger] = {}
        self._jobs: dict[tuple[str, int, str], Job] = {}
        self._strays: set[tuple[str, str]] = set()
        """Pods by job and name that were made on the word of one operator while another one spoke."""
        self._written: dict[str, dict[str, float]] = {}
        """When each operator last wrote of a job."""
        self.edited: dict[str, float] = {}
        """When a user last changed what a job wants."""
        self.exact = True
        """Whether every replacement must have been counted."""
        self.fates: dict[str, Status] = {}
        """The last status of every job, by uid."""

    def creates_pod(self, who: str, body: Tree) -> None:
        self._check_lead(who)
        job = self._job_of(owner_of(body))
        if job is None:
            return  # It was deleted meanwhile; what is made for it goes the same way.
        name, attempt = body["metadata"]["name"], int(body["metadata"]["labels"][ATTEMPT])
        if self._is_contradicted(who, job):
            self._strays.add((job.uid, name))
            return
        self._strays.discard((job.uid, name))
        self._check(lambda: self._check_start(job, self.status_of(job), name, attempt))

    def deletes_pod(self, who: str, pod: Tree, options: Tree) -> None:
        self._check_lead(who)
        body = self._kubelet.bodies[pod["metadata"]["uid"]]
        self._check(lambda: need("preconditions" in options, f"{body.name} is deleted by its name alone"))
        if not self._operators().acts_alone():
            body.taken = True  # The wish of one operator is a stroke of fate for the other.
        is_struck_off = options.get("gracePeriodSeconds") == 0
        body.forced = body.forced or (is_struck_off and body.alive)
        job = self._job_of(body.job)
        if is_struck_off:
            knows = job is not None and not self._is_contradicted(who, job)
            status = self.status_of(job) if job is not None and knows else None
            self._check(lambda: self._check_struck_off(pod, body, status))
        if job is not None and not self._is_contradicted(who, job):
            self._check(lambda: self._check_stop(job, self.status_of(job), body))

    def changes(self, who: str, what: str, uid: str) -> None:
        self._check(lambda: need(bool(uid), f"{who} changes {what} by its name alone"))

    def writes_status(self, who: str, before: Tree, after: Tree) -> None:
        self._check_lead(who)
        uid = after["metadata"]["uid"]
        try:
            job = self._job_of(uid)
        except errors.BadManifest:
            return  # Only a story has one, and looks at what is written of it.
        assert job is not None
        self._check(lambda: self._check_record(job, _status(before), _status(after)))
        self.fates[uid] = _status(after)
        self._written.setdefault(uid, {})[who] = self._story.now

    # The rules.

    def _check_lead(self, who: str) -> None:
        deposed = self._operators().is_deposed(who)
        self._check(lambda: need(not deposed, f"{who} acts although another one leads"))

    def _check_start(self, job: Job, status: Status, name: str, attempt: int) -> None:
        need(not status.phase.is_final, f"{name} starts after the end")
        need(attempt == status.attempt, f"{name} starts in attempt {attempt} of {status.attempt}")
        for one in self._bodies(job):
            if one.alive and not one.forced and not self._is_stray(one):
                need(one.name != name, f"{name} starts while {one.uid} lives")
                need(one.attempt == attempt, f"attempt {attempt} starts while {one.uid} lives")
        if self.exact:
            again = Counter((one.name, one.attempt) for one in self._bodies(job) if one.recorded)
            again[name, attempt] += 1
            free = sum(count - 1 for count in again.values() if count > 1)
            lost = status.crashes + status.evictions
            need(free <= lost, f"{name} is the {free}th replacement after {lost} losses")

    def _check_stop(self, job: Job, status: Status, body: Body) -> None:
        if status.completed is not None or job.policy.suspend or self._changed_lately(job):
            return
        need(body.attempt <= status.attempt, f"{body.uid} of a newer attempt is stopped")
        wanted = kinds.of(job).wanted(job, frozenset(status.done))
        healthy = body.alive and not body.stopping and any(one.name == body.name for one in wanted)
        unknown = body.unlabelled and not body.recorded
        need(not healthy or body.attempt < status.attempt or unknown, f"{body.uid} is stopped for nothing")

    def _check_struck_off(self, pod: Tree, body: Body, status: Status | None) -> None:
        """Nobody waits for a pod's end any more; `status` is what is recorded, where that can be trusted."""
        due = seconds(pod["metadata"].get("deletionTimestamp"))
        need(due is not None, f"{body.uid} is struck off although nobody asked it to end")
        is_lost = self._story.now - self._nodes.lost.get(body.node, 0.0) < OLD_NEWS
        if due is not None and is_lost and self._story.now >= due + 5.0:
            return
        need(pod["status"]["phase"] in FINAL, f"{body.uid} is struck off before its end, or too early")
        if status is not None and not status.phase.is_final:
            known = status.sightings.get(body.name)
            is_closed = known is not None and known.uid == body.uid and known.closed
            need(
                is_closed or body.attempt < status.attempt, f"{body.uid} is struck off before it is recorded"
            )

    def _check_record(self, job: Job, before: Status, after: Status) -> None:
        bodies = self._bodies(job)
        ledger = self._ledgers.setdefault(job.uid, Ledger())
        ledger.crashes = sum(one.restarts + one.fell for one in bodies)
        ledger.taken = {one.uid for one in bodies if one.taken}
        ledger.succeeded = {(one.name, one.attempt) for one in bodies if one.succeeded}
        rules.check_record(ledger, job, before, after)
        _check_times(before, after)
        counted, true = after.crashes + after.evictions, sum(one.losses for one in bodies)
        need(counted <= true, f"{counted} losses counted of {true}")
        if before.completed is None and after.completed is not None:
            self._story.tell(f"    {job.name} is {after.phase}")
        for sighting in after.sightings.values():
            if sighting.uid in self._kubelet.bodies:
                self._kubelet.bodies[sighting.uid].recorded = True

    def check_end(self) -> None:
        """Long after the chaos nothing is left to be done."""
        self._check(self._check_jobs)
        self._check(self._check_orphans)
        self._check(self._check_rights)
        self._check(self._check_parts)

    def _check_jobs(self) -> None:
        for job in self.jobs():
            status = self.status_of(job)
            what = f"{job.name} never ended: it is {status.phase} ({status.waiting}{status.trouble})"
            need(status.phase.is_final, what)
            alive = [one.uid for one in self._bodies(job) if not one.gone and one.phase == "Running"]
            need(job.policy.clean_pods is CleanPods.NONE or not alive, f"{alive} outlive {job.name}")
            left = [one.uid for one in self._bodies(job) if not one.gone]
            need(job.policy.clean_pods is not CleanPods.ALL or not left, f"{left} are left of {job.name}")
            need(job.policy.ttl is None, f"{job.name} is never deleted")

    def _check_orphans(self) -> None:
        for body in self._kubelet.bodies.values():
            need(body.gone or self._job_of(body.job) is not None, f"{body.uid} outlives its job")
            need(not (body.gone and body.alive), f"{body.uid} lives on unknown")

    def _check_rights(self) -> None:
        """No launcher may enter a pod that is not there, or not of its job."""
        for role in self._server.objects["roles"].values():
            named = {name for rule in role["rules"] for name in rule["resourceNames"]}
            pods = self._server.objects[PODS].values()
            own = {key_of(one)[1] for one in pods if owner_of(one) == owner_of(role)}
            need(named <= own, f"{role['metadata']['name']} names {sorted(named - own)}")

    def _check_parts(self) -> None:
        """A job that has ended, and of which nobody lives, leaves nothing that only a running one needs."""
        over = {
            job.uid: job.name
            for job in self.jobs()
            if all(one.gone or one.phase in FINAL for one in self._bodies(job))
        }
        for plural in ("podgroups", "horizontalpodautoscalers"):
            owners = [owner_of(one) for one in self._server.objects[plural].values()]
            left = [over[uid] for uid in owners if uid in over]
            need(not left, f"{left} have ended and still have {plural}")

    # What is true.

    def jobs(self) -> list[Job]:
        trees = [one for plural in PLURALS for one in self._server.objects[plural].values()]
        return [self._job(one) for one in trees]

    def unfinished(self) -> int:
        """How many jobs have not ended."""
        return sum(not self.status_of(one).phase.is_final for one in self.jobs())

    def all_over(self) -> bool:
        """Whether every job has ended, and none is to be deleted any more."""
        return all(self.status_of(one).phase.is_final and one.policy.ttl is None for one in self.jobs())

    def has_services(self, body: Body) -> bool:
        """Whether the names hold under which a pod and its peers look for each other."""
        job = self._job_of(body.job)
        if job is None:
            return True
        there = self._server.objects["services"]
        peers = {one.name for one in self._bodies(job) if one.alive and not one.stopping}
        for member in replica_ids(job):
            role = job.role(member.role)
            service = pod_builder.service(job, role, member.index) if role is not None else None
            if member.name in peers and service is not None and key_of(service) not in there:
                return False
        return True

    def _tree(self, uid: str) -> Tree | None:
        return next((one for plural in PLURALS if (one := self._server.find(plural, uid)) is not None), None)

    def _job_of(self, uid: str) -> Job | None:
        tree = self._tree(uid)
        return self._job(tree) if tree is not None else None

    def _job(self, tree: Tree) -> Job:
        metadata = tree["metadata"]
        # An annotation is a wish too, and no new generation.
        key = (metadata["uid"], metadata["generation"], repr(metadata.get("annotations")))
        if key not in self._jobs:
            manifest = job_objects.manifest(_object(tree))
            (found,) = read.from_manifest(manifest, file="").jobs
            self._jobs[key] = msgspec.structs.replace(found.job, uid=metadata["uid"])
        return self._jobs[key]

    def status_of(self, job: Job) -> Status:
        """What is recorded of a job now."""
        tree = self._tree(job.uid)
        return _status(tree) if tree is not None else Status()

    def _bodies(self, job: Job) -> list[Body]:
        return [one for one in self._kubelet.bodies.values() if one.job == job.uid]

    def _is_stray(self, body: Body) -> bool:
        return (body.job, body.name) in self._strays

    def _is_contradicted(self, who: str, job: Job) -> bool:
        """Whether another operator spoke of the job beside this one, which may not have heard of it yet.

        No request can be made to depend on that. What is counted, and how it ends, must be right anyway.
        """
        since = max(self._operators().begun(who), self._story.now - OLD_NEWS)
        return any(at > since for one, at in self._written.get(job.uid, {}).items() if one != who)

    def _changed_lately(self, job: Job) -> bool:
        return self._story.now - self.edited.get(job.uid, 0.0) < OLD_NEWS

    def _check(self, rule: Callable[[], None]) -> None:
        try:
            rule()
        except Violation as broken:
            self._story.breaks(str(broken))


def _check_times(before: Status, after: Status) -> None:
    """A condition that did not change has not changed lately."""
    for old in before.conditions:
        new = after.condition(old.type)
        if new is not None and new.status == old.status and new.reason == old.reason:
            need(new.changed == old.changed, f"{new.type} changed and is the same")


def _object(tree: Tree) -> JobObject:
    return msgspec.json.decode(msgspec.json.encode(tree), type=JobObject)


def _status(tree: Tree) -> Status:
    status = tree.get("status")
    return job_status.read(msgspec.json.encode(status) if status else b"")
