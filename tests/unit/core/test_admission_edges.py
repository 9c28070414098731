"""Is the queue right where runs hold something already, and where the machine changes under them."""

from __future__ import annotations

from bireme.core.machine import admission
from bireme.core.machine.admission import PATIENCE, Capacity, Held, Want
from bireme.model.decisions import Demand
from bireme.model.pods import Resources

GPU = "nvidia.com/gpu"
MACHINE = Capacity(cpu=4000, memory=16, devices={GPU: ("0", "1")})


def want(run: str, cpu: int, gpus: int = 0, memory: int = 0, since: float = 0.0) -> Want:
    devices = {GPU: gpus} if gpus else {}
    return Want(run, since, (Demand(f"{run}-0", Resources(cpu=cpu, memory=memory, devices=devices)),))


def test_each_run_is_told_of_its_own_grant() -> None:
    verdict = admission.decide(MACHINE, [], [want("a", 1000), want("b", 2000)], now=0.0)

    assert verdict.granted("b") == Held("b", 2000, 0)
    assert verdict.granted("c") is None


def test_a_run_that_holds_a_device_which_is_gone_does_not_keep_it() -> None:
    held = Held("a", 1000, 0, {"a-0": {GPU: ("0", "7")}})

    verdict = admission.decide(MACHINE, [held], [want("a", 1000, gpus=2)], now=0.0)

    assert verdict.admitted == (Held("a", 1000, 0, {"a-0": {GPU: ("0", "1")}}),)


def test_a_run_does_not_keep_what_it_never_had() -> None:
    holds = [Held("a", 1000, 0), Held("b", 0, 0, {"b-0": {GPU: ("0", "1")}})]

    verdict = admission.decide(MACHINE, holds, [want("a", 1000, gpus=1)], now=0.0)

    assert verdict.waiting == {"a": "needs 1 GPU, 0 free; held by b (2)"}


def test_what_a_patient_run_would_give_back_is_not_set_aside_twice() -> None:
    """It holds more memory than it asks for now; others still see only what is free."""
    holds = [Held("patient", 1000, 10), Held("other", 3000, 0)]

    verdict = admission.decide(
        MACHINE, holds, [want("patient", 2000, memory=4), want("late", 0, memory=7, since=1.0)], now=PATIENCE
    )

    assert verdict.waiting["late"].startswith("needs 7 B of memory, 6 B free; held by patient (10 B)")


def test_nothing_is_told_of_what_nobody_set_aside() -> None:
    holds = [Held("other", 3500, 0, {"other-0": {GPU: ("0", "1")}})]

    verdict = admission.decide(
        MACHINE, holds, [want("patient", 1000), want("late", 0, gpus=1, since=1.0)], now=PATIENCE
    )

    assert verdict.waiting["late"] == "needs 1 GPU, 0 free; held by other (2); behind patient in the queue"


def test_what_is_set_aside_of_one_thing_leaves_all_of_another_free() -> None:
    holds = [Held("other", 3500, 0)]

    verdict = admission.decide(
        MACHINE, holds, [want("patient", 1000), want("late", 0, gpus=2, since=1.0)], now=PATIENCE
    )

    assert verdict.granted("late") == Held("late", 0, 0, {"late-0": {GPU: ("0", "1")}})


def test_a_run_that_asks_for_none_of_a_device_keeps_what_it_has() -> None:
    """Manifests say `nvidia.com/gpu: 0`; that must not cost a run its place when somebody waited long."""
    demands = (Demand("mnist-0", Resources(cpu=4000, devices={GPU: 0})),)

    verdict = admission.decide(
        MACHINE, [Held("mnist", 4000, 0)], [want("patient", 1000), Want("mnist", 1.0, demands)], now=PATIENCE
    )

    assert verdict.waiting.keys() == {"patient"}


def test_the_largest_holders_are_named_first_whatever_they_are_called() -> None:
    holds = [Held("a", 500, 0), Held("b", 2000, 0), Held("c", 500, 0), Held("d", 0, 0)]

    verdict = admission.decide(MACHINE, holds, [want("late", 2000)], now=0.0)

    assert verdict.waiting["late"] == "needs 2 cpus, 1 free; held by b (2), a (0.5), c (0.5)"


def test_long_waiting_is_told_in_minutes() -> None:
    verdict = admission.decide(
        MACHINE, [Held("other", 3500, 0)], [want("patient", 1000), want("late", 1000, since=1.0)], now=7200.0
    )

    assert "set aside for patient (1) after 120 minutes of waiting" in verdict.waiting["late"]
