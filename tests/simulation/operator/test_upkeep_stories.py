"""Does everything beside the steps of a job happen in time: removals, upkeep, and writes that may wait."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from bireme.model.status import ConditionType, Phase
from tests.simulation.operator.gangs import GROUPS, PLUGINS
from tests.simulation.operator.manifests import NAMESPACE
from tests.simulation.operator.scripted_cluster import JOBS, WELL, Stage, play
from tests.simulation.operator.server import PODS

SCALERS = "horizontalpodautoscalers"


def test_a_pod_on_a_lost_node_is_given_up_in_time_although_nothing_tells_of_it() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=1)
        await stage.until(lambda: stage.running() == 1)
        (body,) = stage.kubelet.bodies.values()
        nodes = stage.cluster.nodes
        nodes.silence(body.node)
        nodes._notice(body.node)

        stage.server.delete(PODS, body.key, body.uid, 7)
        body.taken = True
        asked = stage.story.now

        await stage.until(lambda: body.gone)
        assert 7.0 + 5.0 - 1.0 <= stage.story.now - asked < 7.0 + 5.0 + 1.5
        await stage.until(lambda: len(stage.kubelet.bodies) == 2)

    play(story)


def test_a_gang_does_not_wait_for_a_kubelet_to_remove_what_has_ended() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit_script(2)
        await stage.until(lambda: stage.running() == 2)
        stage.kubelet._strike_off = lambda body: None  # type: ignore[method-assign]

        stage.scale_script(3)

        began = stage.story.now
        await stage.until(lambda: stage.status.attempt == 1 and stage.running() == 3)
        assert stage.story.now - began < 30.0
        assert (stage.status.crashes, stage.status.evictions) == (0, 0)

    play(story)


def test_a_scheduler_that_turned_a_gang_away_is_reminded_of_it() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=3)
        began = stage.story.now

        await stage.until(lambda: stage.running() == 3)

        assert stage.story.now - began < 20.0

    play(story, replace(WELL, scheduler=PLUGINS))


def test_a_scheduler_is_reminded_no_more_than_every_ten_seconds() -> None:
    async def story(stage: Stage) -> None:
        operator = stage.operator()
        stage.cluster.kubelet.gangs.finds_room = lambda body: False  # type: ignore[method-assign]
        stage.submit(workers=3)

        await asyncio.sleep(100.0)

        assert 7 <= operator.line.sent["PATCH podgroups"] <= 10

    play(story, replace(WELL, scheduler=PLUGINS))


@pytest.mark.parametrize("scheduler", [PLUGINS, "volcano"])
def test_a_group_follows_the_size_of_its_job_and_goes_with_it(scheduler: str) -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=3)
        await stage.until(lambda: stage.running() == 3)
        assert _members(stage) == 3

        stage.scale(2)
        await stage.until(lambda: _members(stage) == 2)
        stage.kubelet.hurry()

        await stage.until(lambda: stage.status.phase is Phase.SUCCEEDED)
        await stage.until(lambda: not stage.server.objects[GROUPS])

    play(story, replace(WELL, scheduler=scheduler))


def _members(stage: Stage) -> int:
    return int(stage.server.get(GROUPS, (NAMESPACE, "job"))["spec"]["minMember"])


def test_an_autoscaler_follows_its_job_and_goes_with_it() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit_elastic(workers=2, most=4)
        await stage.until(lambda: stage.running() == 2)
        await asyncio.sleep(5.0)
        assert _most(stage) == 4

        stage.change_elastic(most=6)
        await stage.until(lambda: _most(stage) == 6)
        stage.suspend()

        await stage.until(lambda: not stage.server.objects[SCALERS])

    play(story)


def test_an_autoscaler_that_an_operator_before_us_made_follows_its_job_too() -> None:
    async def story(stage: Stage) -> None:
        first = stage.operator()
        stage.submit_elastic(workers=2, most=4)
        await stage.until(lambda: stage.running() == 2)
        await asyncio.sleep(5.0)
        first.kill()
        stage.change_elastic(most=6)

        stage.operator()

        await stage.until(lambda: _most(stage) == 6)

    play(story)


def _most(stage: Stage) -> int:
    return int(stage.server.get(SCALERS, (NAMESPACE, "job"))["spec"]["maxReplicas"])


def test_a_large_job_that_starts_costs_few_writes_and_none_is_late() -> None:
    async def story(stage: Stage) -> None:
        operator = stage.operator()
        await asyncio.sleep(5.0)
        stage.submit(workers=60)
        began = stage.story.now

        await stage.until(lambda: stage.status.holds(ConditionType.CREATED))
        assert stage.story.now - began < 2.0 + 0.5
        await stage.until(lambda: stage.running() >= 1)
        began = stage.story.now
        await stage.until(lambda: stage.status.holds(ConditionType.RUNNING))
        assert stage.story.now - began < 0.5 + 0.5
        await stage.until(lambda: stage.running() == 60)
        began = stage.story.now
        await stage.until(lambda: sum(one.active for one in stage.status.replicas.values()) == 60)
        assert stage.story.now - began < 1.0 + 0.5

        assert operator.line.sent["PATCH pytorchjobs/status"] <= 8

    play(story)


def test_an_unreadable_job_fails_once() -> None:
    async def story(stage: Stage) -> None:
        operator = stage.operator()
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": "many"}}}
        metadata = {"name": "job", "namespace": NAMESPACE}
        body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata, "spec": spec}
        stage.server.create(JOBS, NAMESPACE, body)

        await asyncio.sleep(700.0)

        (tree,) = stage.server.objects[JOBS].values()
        (failed,) = tree["status"]["conditions"]
        assert (failed["type"], failed["reason"]) == ("Failed", "PyTorchJobFailedValidation")
        assert operator.line.sent["PATCH pytorchjobs/status"] == 1
        stage.remove(JOBS)

    play(story)


def test_a_refused_start_is_told_at_once() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.most_pods = 0
        stage.operator()
        await asyncio.sleep(5.0)
        stage.submit(workers=1)
        began = stage.story.now

        await stage.until(lambda: "exceeded quota" in stage.status.trouble)

        assert stage.story.now - began < 1.0

    play(story)


def test_a_pod_that_takes_its_grace_on_a_node_that_answers_is_not_given_up() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=1)
        await stage.until(lambda: stage.running() == 1)
        (body,) = stage.kubelet.bodies.values()
        stage.kubelet._stop = lambda body, grace: None  # type: ignore[method-assign]

        stage.server.delete(PODS, body.key, body.uid, 7)
        body.taken = True
        await asyncio.sleep(60.0)

        assert not body.gone

    play(story)
