"""Does the queue admit whole gangs in a fair order, and say in plain words what the others wait for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bireme.core.machine import admission
from bireme.core.machine.admission import PATIENCE, Capacity, Held, Want
from bireme.model.decisions import Demand
from bireme.model.pods import Resources

GPU = "nvidia.com/gpu"
GIB = 1024**3
MACHINE = Capacity(cpu=4000, memory=16 * GIB, devices={GPU: ("0", "1")})


def demand(replica: str, cpu: int | None = None, memory: int | None = None, gpus: int = 0) -> Demand:
    return Demand(replica, Resources(cpu=cpu, memory=memory, devices={GPU: gpus} if gpus else {}))


def gang(count: int, cpu: int | None = None, memory: int | None = None, gpus: int = 0) -> tuple[Demand, ...]:
    return tuple(demand(f"w-{index}", cpu, memory, gpus) for index in range(count))


def want(run: str, demands: tuple[Demand, ...], since: float = 0.0) -> Want:
    return Want(run, since, demands)


def admitted(verdict: admission.AdmissionVerdict) -> list[str]:
    return [one.run for one in verdict.admitted]


def test_a_gang_that_fits_is_admitted_whole() -> None:
    verdict = admission.decide(MACHINE, [], [want("mnist", gang(2, cpu=2000))], now=0)

    assert verdict.admitted == (Held("mnist", cpu=4000, memory=0),)
    assert not verdict.waiting


def test_a_replica_that_asks_for_no_cpu_counts_one() -> None:
    verdict = admission.decide(MACHINE, [], [want("mnist", gang(3))], now=0)

    assert verdict.admitted == (Held("mnist", cpu=3000, memory=0),)


def test_a_replica_that_asks_for_zero_cpu_counts_none() -> None:
    verdict = admission.decide(MACHINE, [], [want("mnist", gang(3, cpu=0))], now=0)

    assert verdict.admitted == (Held("mnist", cpu=0, memory=0),)


def test_who_waits_is_told_what_is_short_and_who_has_it() -> None:
    held = [Held("mnist", 1000, 0), Held("digits", 2500, 0)]

    verdict = admission.decide(MACHINE, held, [want("big", gang(1, cpu=2000))], now=0)

    assert verdict.waiting == {"big": "needs 2 cpus, 0.5 free; held by digits (2.5), mnist (1)"}


def test_all_that_is_short_is_told_with_units() -> None:
    held = [Held("mnist", 0, 12 * GIB, {"mnist-w-0": {GPU: ("0",)}})]

    verdict = admission.decide(MACHINE, held, [want("big", gang(1, cpu=1000, memory=8 * GIB, gpus=2))], now=0)

    assert verdict.waiting["big"] == (
        "needs 8 GiB of memory, 4 GiB free; held by mnist (12 GiB); needs 2 GPUs, 1 free; held by mnist (1)"
    )


def test_one_of_a_thing_is_singular() -> None:
    busy = [Held("mnist", 4000, 0, {"mnist-w-0": {GPU: ("0", "1")}})]

    verdict = admission.decide(MACHINE, busy, [want("small", gang(1, gpus=1))], now=0)

    assert verdict.waiting["small"].startswith("needs 1 cpu, 0 free")
    assert "needs 1 GPU, 0 free" in verdict.waiting["small"]


def test_a_long_list_of_holders_is_cut() -> None:
    held = [Held(f"run-{index}", 500, 0) for index in range(8)]

    verdict = admission.decide(MACHINE, held, [want("big", gang(1))], now=0)

    assert verdict.waiting["big"].endswith("run-4 (0.5) and 3 more")


def test_jobs_ahead_in_the_queue_are_named() -> None:
    held = [Held("mnist", 4000, 0)]
    queue = [want("second", gang(1), since=2), want("first", gang(1), since=1)]

    verdict = admission.decide(MACHINE, held, queue, now=3)

    assert "behind" not in verdict.waiting["first"]
    assert verdict.waiting["second"].endswith("; behind first in the queue")


def test_the_queue_is_in_the_order_of_waiting() -> None:
    queue = [want("second", gang(3), since=2), want("first", gang(3), since=1)]

    verdict = admission.decide(MACHINE, [], queue, now=3)

    assert admitted(verdict) == ["first"]
    assert verdict.waiting["second"] == "needs 3 cpus, 1 free; held by first (3)"


def test_a_small_job_passes_a_blocked_one() -> None:
    held = [Held("mnist", 3000, 0)]
    queue = [want("big", gang(4), since=0), want("small", gang(1), since=5)]

    verdict = admission.decide(MACHINE, held, queue, now=PATIENCE - 1)

    assert admitted(verdict) == ["small"]


def test_nobody_takes_what_a_job_needs_that_waited_long() -> None:
    held = [Held("mnist", 3000, 0)]
    queue = [want("big", gang(4), since=0), want("small", gang(1), since=5)]

    verdict = admission.decide(MACHINE, held, queue, now=PATIENCE)

    assert not verdict.admitted
    assert verdict.waiting["small"] == (
        "needs 1 cpu, 0 free; held by mnist (3); set aside for big (4) after 5 minutes of waiting; "
        "behind big in the queue"
    )


def test_a_job_that_takes_nothing_from_the_one_that_waited_long_passes_it() -> None:
    held = [Held("mnist", 1000, 0, {"mnist-w-0": {GPU: ("0", "1")}})]
    queue = [want("vision", gang(1, cpu=1000, gpus=1), since=0), want("small", gang(2), since=5)]

    verdict = admission.decide(MACHINE, held, queue, now=PATIENCE * 100)

    assert admitted(verdict) == ["small"]


def test_who_asks_for_no_more_than_it_holds_keeps_it_whoever_waits() -> None:
    held = [Held("mnist", 4000, 0, {"w-0": {GPU: ("1",)}})]
    again = (demand("w-0", cpu=4000, gpus=1),)
    queue = [want("big", gang(4), since=0), want("mnist", again, since=PATIENCE)]

    verdict = admission.decide(MACHINE, held, queue, now=2 * PATIENCE)

    assert verdict.granted("mnist") == held[0]


def test_a_larger_wish_counts_what_the_run_holds_as_free_for_it() -> None:
    held = [Held("mnist", 2000, 0), Held("digits", 1000, 0)]

    verdict = admission.decide(MACHINE, held, [want("mnist", gang(3)), want("digits", gang(2))], now=0)

    assert verdict.admitted == (Held("digits", 2000, 0),)
    assert verdict.waiting == {"mnist": "needs 3 cpus, 2 free; held by digits (2)"}


def test_each_replica_gets_devices_of_its_own_and_the_ones_it_had() -> None:
    four = Capacity(cpu=8000, memory=0, devices={GPU: ("a", "b", "c", "d")})
    held = [Held("mnist", 1000, 0, {"w-1": {GPU: ("c",)}}), Held("digits", 1000, 0, {"x": {GPU: ("a",)}})]

    verdict = admission.decide(four, held, [want("mnist", gang(3, gpus=1))], now=0)

    granted = verdict.granted("mnist")
    assert granted is not None
    assert granted.devices == {"w-0": {GPU: ("b",)}, "w-1": {GPU: ("c",)}, "w-2": {GPU: ("d",)}}


def test_a_device_that_others_use_is_not_free() -> None:
    machine = Capacity(cpu=4000, memory=0, devices={GPU: ("0", "1")}, busy={GPU: ("0", "1")})
    held = [Held("mnist", 0, 0, {"w-0": {GPU: ("1",)}})]

    verdict = admission.decide(machine, held, [want("big", gang(1, cpu=0, gpus=1))], now=0)

    assert verdict.waiting["big"] == "needs 1 GPU, 0 free; held by mnist (1); 1 busy with other programs"


def test_cpu_beyond_the_machine_is_shared_and_said() -> None:
    demands, sentence = admission.capped(MACHINE, (demand("a", cpu=6000), demand("b")))

    assert [one.resources.cpu for one in demands] == [3428, 571]
    assert sentence == "asks for 7 cpus, this machine has 4: its replicas share 4"


def test_cpu_that_fits_is_left_as_it_was_asked_for() -> None:
    demands = gang(4)

    assert admission.capped(MACHINE, demands) == (demands, "")


def test_what_could_never_fit_is_told_but_never_for_cpu() -> None:
    assert admission.never_fits(MACHINE, gang(2, cpu=9000, memory=10 * GIB, gpus=2)) == (
        "needs 20 GiB of memory, this machine has 16 GiB; needs 4 GPUs, this machine has 2"
    )
    assert admission.never_fits(MACHINE, gang(2, cpu=9000, memory=8 * GIB, gpus=1)) == ""


def test_an_unknown_device_never_fits() -> None:
    odd = (Demand("w-0", Resources(devices={"example.com/npu": 2})),)

    assert admission.never_fits(MACHINE, odd) == "needs 2 example.com/npu, this machine has 0"


DEMANDS = st.builds(
    lambda cpu, memory, gpus, count: gang(count, cpu, memory, gpus),
    st.none() | st.integers(0, 5000),
    st.none() | st.integers(0, 20).map(lambda gib: gib * GIB),
    st.integers(0, 2),
    st.integers(0, 3),
)
QUEUES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1000), DEMANDS), unique_by=lambda one: one[0]
)


@given(QUEUES, QUEUES, st.floats(0, 2000))
def test_never_more_is_given_than_there_is(
    first: list[tuple[str, float, tuple[Demand, ...]]],
    second: list[tuple[str, float, tuple[Demand, ...]]],
    now: float,
) -> None:
    held = admission.decide(MACHINE, [], [Want(*one) for one in first], now).admitted

    verdict = admission.decide(MACHINE, held, [Want(*one) for one in second], now)

    holders = {one.run: one for one in (*held, *verdict.admitted)}
    ids = [gpu for one in holders.values() for each in one.devices.values() for gpu in each.get(GPU, ())]
    assert sum(one.cpu for one in holders.values()) <= MACHINE.cpu
    assert sum(one.memory for one in holders.values()) <= MACHINE.memory
    assert len(ids) == len(set(ids)) <= 2
    assert {one.run for one in verdict.admitted} | set(verdict.waiting) == {run for run, _, _ in second}
    assert {one.run for one in verdict.admitted}.isdisjoint(verdict.waiting)
    assert all(verdict.waiting.values())


@given(QUEUES, st.floats(0, 2000))
def test_a_machine_that_nobody_uses_admits_the_first_that_fits(
    queue: list[tuple[str, float, tuple[Demand, ...]]], now: float
) -> None:
    wants = sorted((Want(*one) for one in queue), key=lambda one: (one.since, one.run))
    possible = [
        one
        for one in wants
        if not admission.never_fits(MACHINE, one.demands) and not admission.capped(MACHINE, one.demands)[1]
    ]

    verdict = admission.decide(MACHINE, [], possible, now)

    assert admitted(verdict)[:1] == [one.run for one in possible[:1]]
