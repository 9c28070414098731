"""Is every loss counted once and every pod found again, in the few moments that are hard to hit by chance."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from msgspec.structs import replace

from bireme.model.status import Phase
from tests.simulation.operator.manifests import NAMESPACE
from tests.simulation.operator.profiles import Leaders
from tests.simulation.operator.scripted_cluster import JOBS, MPI_JOBS, WELL, Stage, play
from tests.simulation.operator.server import NODES, PODS, key_of


def test_a_job_that_is_deleted_while_its_pods_are_made_fails_no_step() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=3)
        await stage.until(lambda: len(stage.server.objects[PODS]) == 1)

        stage.remove(JOBS)

        await stage.until(lambda: not stage.server.objects[PODS])
        await asyncio.sleep(60.0)

    play(story, replace(WELL, latency=0.1))


def test_a_job_that_is_deleted_before_its_pods_are_made_fails_no_step() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        await asyncio.sleep(5.0)
        stage.submit_mpi(workers=2)
        await asyncio.sleep(0.1)

        stage.remove(MPI_JOBS)

        await asyncio.sleep(60.0)
        assert not stage.server.objects[PODS]

    play(story, replace(WELL, latency=1.0))


def test_a_worker_that_was_scaled_away_for_a_moment_is_not_lost() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=2)
        await stage.until(lambda: stage.running() == 2)
        await asyncio.sleep(10.0)
        pods = set(stage.kubelet.bodies)

        stage.scale(1)
        await stage.until(lambda: any(one.stopping for one in stage.kubelet.bodies.values()))
        stage.scale(2)

        await stage.until(lambda: len(stage.kubelet.bodies) > len(pods) and stage.running() == 2)
        await asyncio.sleep(10.0)
        assert (stage.status.crashes, stage.status.evictions) == (0, 0)

    play(story)


def _runs(stage: Stage, attempt: int, ranks: int) -> bool:
    return (stage.status.attempt, stage.running()) == (attempt, ranks)


def test_a_script_that_is_scaled_starts_anew_at_its_new_size() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit_script(2)
        await stage.until(lambda: stage.running() == 2)
        for attempt, ranks in ((1, 4), (2, 1), (3, 2)):
            stage.scale_script(ranks)

            await stage.until(partial(_runs, stage, attempt, ranks))
            await asyncio.sleep(20.0)
            assert len(stage.server.objects[PODS]) == ranks
            assert {one.attempt for one in stage.kubelet.living()} == {attempt}
        assert (stage.status.crashes, stage.status.evictions) == (0, 0)

    play(story)


def test_a_script_that_is_scaled_while_its_operator_dies_has_no_mixed_gang() -> None:
    async def story(stage: Stage) -> None:
        first = stage.operator()
        stage.submit_script(2)
        await stage.until(lambda: stage.running() == 2)
        stage.when(PODS, "MODIFIED", first.kill)
        stage.scale_script(3)
        await stage.until(lambda: first.ended)
        stage.scale_script(4)

        stage.operator()

        await stage.until(lambda: stage.running() == 4)
        assert len({one.attempt for one in stage.kubelet.living()}) == 1

    play(story, replace(WELL, latency=0.1))


def test_a_job_that_failed_goes_on_when_it_is_resumed() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit_script(2)
        await stage.until(lambda: stage.running() == 2)
        stage.fail("job-worker-0")
        await stage.until(lambda: stage.status.phase is Phase.FAILED)
        await asyncio.sleep(60.0)

        stage.resume(1)

        await stage.until(lambda: stage.status.phase is Phase.RUNNING and stage.running() == 2)
        assert (stage.status.attempt, stage.status.completed) == (1, None)
        stage.kubelet.hurry()
        await stage.until(lambda: stage.status.phase is Phase.SUCCEEDED)

    play(story)


def test_pods_that_another_operator_made_are_not_lost() -> None:
    async def story(stage: Stage) -> None:
        first = stage.operator()
        await asyncio.sleep(5.0)
        first.line.cut_until = stage.story.now + 10.0
        stage.submit(workers=3)
        stage.operator()
        await asyncio.sleep(9.0)
        assert stage.status.sightings

        # The first one hears of the job and its status, and not yet of the pods.
        stage.cluster.network.watches.stall(PODS, 30.0)
        await asyncio.sleep(60.0)

        assert (stage.status.crashes, stage.status.evictions) == (0, 0)
        assert stage.running() == 3

    play(story)


def test_a_pod_has_its_service_whenever_its_operator_dies() -> None:
    async def story(stage: Stage) -> None:
        first = stage.operator()
        stage.when(PODS, "ADDED", first.kill)
        stage.submit(workers=3)
        await stage.until(lambda: first.ended)

        stage.operator()
        stage.kubelet.hurry()

        await stage.until(lambda: stage.status.phase.is_final)

    play(story, replace(WELL, latency=0.2))


def test_a_loss_is_counted_although_nobody_heard_that_its_pod_was_recorded() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=1)
        await stage.until(lambda: stage.running() == 1)
        stage.cluster.network.watches.stall(JOBS, 60.0)
        stage.change(fails_after=1.0)
        await stage.until(lambda: bool(stage.status.sightings))
        stage.change(fails_after=0.0)

        (body,) = stage.kubelet.bodies.values()
        body.taken = True
        stage.server.delete(PODS, body.key, body.uid, 0)

        await stage.until(lambda: len(stage.kubelet.bodies) == 2)
        await asyncio.sleep(5.0)
        assert (stage.status.crashes, stage.status.evictions) == (0, 1)

    play(story)


@pytest.mark.parametrize("label", [None, "x"])
def test_a_job_whose_pods_lose_their_attempt_neither_hangs_nor_loses_them(label: str | None) -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=2)
        await stage.until(lambda: stage.running() == 2)
        (first, *_) = stage.kubelet.bodies.values()
        first.taken = True
        stage.server.delete(PODS, first.key, first.uid, 0)
        await stage.until(lambda: len(stage.kubelet.bodies) == 3 and stage.running() == 2)
        await stage.until(lambda: len(stage.status.sightings) == 2)

        for body in stage.kubelet.living():
            stage.relabel(body, label)
        await asyncio.sleep(30.0)
        assert (len(stage.kubelet.bodies), stage.status.evictions) == (3, 1)
        stage.kubelet.hurry()

        await stage.until(lambda: stage.status.phase.is_final)

    play(story)


def test_a_job_that_another_operator_left_half_done_is_carried_on() -> None:
    async def story(stage: Stage) -> None:
        first = stage.operator()
        stage.submit(workers=2)
        await stage.until(lambda: stage.running() == 2)
        first.kill()
        for body in stage.kubelet.living():
            stage.relabel(body, None)
        (tree,) = stage.server.objects[JOBS].values()
        theirs = {name: value for name, value in tree.get("status", {}).items() if name != "bireme"}
        stage.server.change(JOBS, key_of(tree), status={**theirs, "replicaStatuses": None})

        stage.operator()
        await asyncio.sleep(30.0)
        assert len(stage.kubelet.bodies) == 2
        stage.kubelet.hurry()

        await stage.until(lambda: stage.status.phase.is_final)

    play(story)


def test_workers_on_a_node_that_the_watch_has_not_told_yet_are_ready() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        await asyncio.sleep(5.0)
        stage.cluster.network.watches.stall(NODES, 60.0)
        stage.cluster.nodes.add()
        submitted = stage.story.now
        stage.submit_mpi(workers=2)

        await stage.until(lambda: stage.has("job-launcher"))

        assert stage.story.now < submitted + 30.0

    play(story, replace(WELL, nodes=0))


def test_a_worker_whose_service_another_operator_removed_gets_it_again() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=2)
        await stage.until(lambda: stage.running() == 2)
        await asyncio.sleep(5.0)
        stage.cluster.network.watches.stall(JOBS, 20.0)
        other = stage.operator()
        await asyncio.sleep(1.0)
        stage.scale(1)
        await stage.until(lambda: not stage.has("job-worker-1"))
        other.kill()

        stage.scale(2)

        await stage.until(lambda: stage.running() == 2)
        assert (NAMESPACE, "job-worker-1") in stage.server.objects["services"]

    play(story, replace(WELL, leaders=Leaders.OVERLAP))


def test_a_refusal_is_forgotten_when_its_pod_is_there_after_all() -> None:
    async def story(stage: Stage) -> None:
        one = stage.operator()

        def cut() -> None:
            one.line.cut_until = stage.story.now + 45.0  # Longer than a request is tried.

        stage.when(PODS, "ADDED", cut)
        stage.submit(workers=1)
        await stage.until(lambda: stage.running() == 1)

        await asyncio.sleep(120.0)

        assert not stage.status.trouble

    play(story)


def test_a_refusal_is_forgotten_when_its_pod_is_not_wanted_any_more() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.most_pods = 2
        stage.operator()
        stage.submit(workers=3)
        await stage.until(lambda: stage.running() == 2 and bool(stage.status.trouble))

        stage.scale(2)
        await asyncio.sleep(120.0)

        assert (stage.running(), stage.status.trouble, stage.status.refusal) == (2, "", None)

    play(story)


def test_a_quota_of_ten_pods_keeps_most_of_a_large_job_from_being_tried() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.most_pods = 10
        stage.operator()
        stage.submit(workers=300)

        await asyncio.sleep(120.0)

        assert len(stage.server.objects[PODS]) == 10
        assert stage.cluster.refused <= 24 + 10, "one batch, then one request a try"
        assert len(stage.server.objects["services"]) <= 10 + 24

    play(story)


def test_a_large_job_is_complete_soon_after_its_quota_was_raised() -> None:
    async def story(stage: Stage) -> None:
        stage.cluster.most_pods = 10
        stage.operator()
        stage.submit(workers=100)
        await stage.until(lambda: bool(stage.status.trouble))
        await asyncio.sleep(20.0)

        stage.cluster.most_pods = 1000

        await asyncio.sleep(30.0)
        assert stage.running() == 100
        assert not stage.status.trouble

    play(story)


def test_a_small_job_does_not_wait_behind_the_pods_of_a_large_one() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=500)
        await stage.until(lambda: len(stage.server.objects[PODS]) > 50)
        began = stage.story.now

        stage.submit(workers=1, name="small")

        await stage.until(lambda: stage.has("small-worker-0"))
        assert stage.story.now - began < 1.0
        assert not stage.has("job-worker-499"), "the large job is not complete yet"
        await stage.until(lambda: stage.running() == 501)

    play(story, replace(WELL, latency=0.2))


def test_a_small_job_does_not_wait_for_the_end_of_a_large_one() -> None:
    async def story(stage: Stage) -> None:
        stage.operator()
        stage.submit(workers=500)
        await stage.until(lambda: stage.running() == 500)
        await asyncio.sleep(5.0)

        stage.scale(1)
        await stage.until(lambda: any(one.stopping for one in stage.kubelet.bodies.values()))
        began = stage.story.now
        stage.submit(workers=1, name="small")

        await stage.until(lambda: stage.has("small-worker-0"))
        assert stage.story.now - began < 1.0
        assert stage.has("job-worker-499"), "the large job is not gone yet"
        await stage.until(lambda: stage.running() == 2)

    play(story, replace(WELL, latency=0.2))


def test_a_file_of_another_owner_in_the_way_is_asked_for_ever_more_rarely() -> None:
    async def story(stage: Stage) -> None:
        stage.submit(workers=1, name="other")
        owner = {"uid": stage.server.get(JOBS, (NAMESPACE, "other"))["metadata"]["uid"], "controller": True}
        metadata = {"name": "job-config", "ownerReferences": [owner]}
        stage.server.create("configmaps", NAMESPACE, {"metadata": metadata})
        operator = stage.operator()
        stage.submit_mpi(workers=50)

        await asyncio.sleep(120.0)

        (job,) = (one for one in stage.cluster.rules.jobs() if one.name == "job")
        assert 'a ConfigMap named "job-config" exists' in stage.cluster.rules.status_of(job).trouble
        assert operator.line.sent["POST configmaps"] <= 30
        assert not stage.has("job-worker-0")

    play(story)
