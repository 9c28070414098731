"""A simulated cluster that follows a script: nothing goes wrong but what the test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from random import Random

from msgspec.structs import replace

from bireme import kinds
from bireme.model.status import Status
from tests.simulation.operator import run
from tests.simulation.operator.chaos import relabelled
from tests.simulation.operator.history import Story
from tests.simulation.operator.loop import VirtualLoop
from tests.simulation.operator.manifests import NAMESPACE
from tests.simulation.operator.operators import Operator
from tests.simulation.operator.profiles import Leaders, Profile
from tests.simulation.operator.server import PODS, Told, Tree
from tests.simulation.operator.simulated_pod import Body

JOBS, MPI_JOBS = "pytorchjobs", "mpijobs"
PATIENCE = 600.0

WELL = Profile(
    jobs=0,
    chaos=0.0,
    misfortunes=(),
    pause=0.0,
    leaders=Leaders.ALONE,
    nodes=2,
    work=60.0,
    latency=0.005,
    lag=0.01,
    watch=0.0,
    old_lists=0.0,
    crash=0.0,
    hang=1.0,
    no_image=0.0,
    finalizer=0.0,
    too_many=0.0,
    fails_before=0.0,
    fails_after=0.0,
    stall=0.0,
    repeat=0.0,
    kill=0.0,
)
"""A cluster in which all goes well, and programs run until they are told to end."""


class Stage:
    """A cluster, and who acts in it."""

    def __init__(self, profile: Profile, story: Story) -> None:
        self.story = story
        self.cluster = run.build(Random(1), profile, story)
        self.server, self.kubelet = self.cluster.server, self.cluster.kubelet

    def operator(self) -> Operator:
        return self.cluster.operators.add()

    def change(self, **chances: float) -> None:
        """From now on other things go wrong."""
        changed = replace(self.cluster.profile, **chances)
        self.cluster.profile = self.cluster.network.profile = changed

    def submit(self, workers: int, name: str = "job") -> None:
        roles = {"Worker": _role("pytorch", workers)}
        self.server.create(JOBS, NAMESPACE, _job("PyTorchJob", {"pytorchReplicaSpecs": roles}, name))

    def submit_script(self, ranks: int) -> None:
        """A gang as `bireme run script.py` sends it: each replica is a rank."""
        job = _job("PyTorchJob", {"pytorchReplicaSpecs": _ranks(ranks)})
        job["metadata"]["annotations"] = {"bireme.io/restart": "gang", "bireme.io/environment": "torchrun"}
        job["spec"]["runPolicy"] = {"cleanPodPolicy": "Running", "backoffLimit": 0}
        self.server.create(JOBS, NAMESPACE, job)

    def scale_script(self, ranks: int) -> None:
        self._edit(spec={"pytorchReplicaSpecs": _ranks(ranks)})

    def resume(self, times: int) -> None:
        """Let a job go on that has failed, as `bireme resume` does."""
        self._edit(annotations={"bireme.io/resumes": str(times)})

    def fail(self, pod: str) -> None:
        """The program of a pod ends with an error."""
        (body,) = [one for one in self.kubelet.living() if one.name == pod]
        self.kubelet._ended(body, body.runs, 1)

    def _edit(self, spec: Tree | None = None, annotations: Tree | None = None) -> None:
        tree = self.server.get(JOBS, (NAMESPACE, "job"))
        self.cluster.rules.edited[tree["metadata"]["uid"]] = self.story.now
        self.cluster.rules.exact = False
        known = tree["metadata"].get("annotations") or {}
        metadata = {**tree["metadata"], "annotations": {**known, **(annotations or {})}}
        changed = {**tree["spec"], **(spec or {})}
        self.server.change(JOBS, (NAMESPACE, "job"), spec=changed, metadata=metadata)

    def submit_elastic(self, workers: int, most: int) -> None:
        """A job that its cluster scales by a metric."""
        spec = {"pytorchReplicaSpecs": {"Worker": _role("pytorch", workers)}, **_elastic(most)}
        self.server.create(JOBS, NAMESPACE, _job("PyTorchJob", spec))

    def change_elastic(self, most: int) -> None:
        self._edit(spec=_elastic(most))

    def suspend(self) -> None:
        self._edit(spec={"runPolicy": {"cleanPodPolicy": "All", "suspend": True}})

    def submit_mpi(self, workers: int) -> None:
        roles = {"Launcher": _role("main", 1), "Worker": _role("main", workers)}
        spec = {"mpiReplicaSpecs": roles, "servedVersion": "v2beta1"}
        self.server.create(MPI_JOBS, NAMESPACE, _job("MPIJob", spec))

    def relabel(self, body: Body, attempt: str | None) -> None:
        """Let somebody change, or take away, the label that tells a pod's attempt."""
        relabelled(self.server, body, attempt)

    def remove(self, plural: str) -> None:
        self.server.delete(plural, (NAMESPACE, "job"))

    def when(self, plural: str, type: str, do: Callable[[], None]) -> None:
        """Do something in the very moment of a change, once."""
        waiting = [do]

        def hear(told: Told) -> None:
            if waiting and (told.plural, told.type) == (plural, type):
                waiting.pop()()

        self.server.listeners.append(hear)

    def scale(self, workers: int) -> None:
        tree = self.server.get(JOBS, (NAMESPACE, "job"))
        worker = {**tree["spec"]["pytorchReplicaSpecs"]["Worker"], "replicas": workers}
        spec = {**tree["spec"], "pytorchReplicaSpecs": {"Worker": worker}}
        self.cluster.rules.edited[tree["metadata"]["uid"]] = self.story.now
        self.cluster.rules.exact = False
        self.server.change(JOBS, (NAMESPACE, "job"), spec=spec)

    @property
    def status(self) -> Status:
        (job,) = self.cluster.rules.jobs()
        return self.cluster.rules.status_of(job)

    def running(self) -> int:
        pods = self.server.objects[PODS].values()
        return sum(one["status"]["phase"] == "Running" for one in pods)

    def has(self, pod: str) -> bool:
        return (NAMESPACE, pod) in self.server.objects[PODS]

    async def until(self, holds: Callable[[], bool]) -> None:
        ends = self.story.now + PATIENCE
        while not holds():
            assert self.story.now < ends, "\n".join(["it never came to pass", *self.story.lines])
            await asyncio.sleep(0.02)


def _role(container: str, replicas: int) -> Tree:
    main = {"name": container, "image": "train", "command": ["train"]}
    template = {"spec": {"containers": [main], "terminationGracePeriodSeconds": 5}}
    return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}


def _elastic(most: int) -> Tree:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    return {"elasticPolicy": {"minReplicas": 1, "maxReplicas": most, "metrics": [metric]}}


def _ranks(count: int) -> Tree:
    others = {"Worker": _role("pytorch", count - 1)} if count > 1 else {}
    return {"Master": _role("pytorch", 1), **others}


def _job(kind: str, spec: Tree, name: str = "job") -> Tree:
    return {
        "apiVersion": kinds.named(kind).api_versions[0],
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**spec, "runPolicy": {"cleanPodPolicy": "All"}},
    }


def play(story: Callable[[Stage], Awaitable[None]], profile: Profile = WELL) -> Stage:
    """Tell a story; whatever rule is broken on the way fails it."""
    before = random.getstate()
    random.seed(1)
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_play(story, profile))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        random.setstate(before)


async def _play(tell: Callable[[Stage], Awaitable[None]], profile: Profile) -> Stage:
    loop = asyncio.get_running_loop()
    story = Story(loop)
    loop.set_exception_handler(lambda _, context: run.fell(story, context))
    stage = Stage(profile, story)
    with run.logs(story):
        await tell(stage)
        for one in stage.cluster.operators.living():
            one.kill()
        for one in stage.cluster.operators.all:
            await one.wait()
    assert not story.violation, "\n".join([*story.lines, story.details])
    return stage
