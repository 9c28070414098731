"""Does a replica live as it would under a kubelet."""

from __future__ import annotations

import pytest

from bireme.core.replicas import kubelet
from bireme.core.replicas.kubelet import ContainerHistory, InPlace, Lifecycle
from bireme.model.pods import Container, PodSpec
from bireme.model.replicas import ReplicaPhase
from tests.unit import build

PENDING, RUNNING = ReplicaPhase.PENDING, ReplicaPhase.RUNNING
SUCCEEDED, FAILED = ReplicaPhase.SUCCEEDED, ReplicaPhase.FAILED


class Kubelet:
    """Carries out what is decided for one replica; programs end when the test says so."""

    def __init__(self, policy: InPlace, *containers: Container, init: tuple[Container, ...] = ()) -> None:
        programs = containers or (build.container(name="main"),)
        self.pod = PodSpec(containers=programs, init_containers=init)
        self.policy = policy
        self.states: dict[str, ContainerHistory] = {}

    def look(self, now: float = 0.0) -> Lifecycle:
        """What is decided now; what is to be started or stopped then is."""
        life = kubelet.decide(self.pod, self.policy, self.pod.containers[0].name, self.states, now)
        for name in life.start:
            self.states[name] = kubelet.started(self.states.get(name, ContainerHistory()), now)
        for name in life.stop:
            self.states[name] = kubelet.ended(self.states[name], 143, now)
        return life

    def end(self, name: str, code: int, now: float = 0.0) -> Lifecycle:
        self.states[name] = kubelet.ended(self.states[name], code, now)
        return self.look(now)


def container(name: str) -> Container:
    return build.container(name=name)


def sidecar(name: str = "proxy") -> Container:
    return build.container(name=name, sidecar=True)


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [
        (InPlace.ALWAYS, 0, True),
        (InPlace.ALWAYS, 1, True),
        (InPlace.ON_FAILURE, 0, False),
        (InPlace.ON_FAILURE, 1, True),
        (InPlace.NEVER, 0, False),
        (InPlace.NEVER, 1, False),
    ],
)
def test_when_a_program_is_started_again(policy: InPlace, code: int, again: bool) -> None:
    assert policy.again(code) is again


# One container.


def test_a_replica_starts_its_program_and_is_ready_when_that_runs() -> None:
    kubelet = Kubelet(InPlace.NEVER)

    first, second = kubelet.look(), kubelet.look()

    assert first == Lifecycle(RUNNING, start=("main",))
    assert second == Lifecycle(RUNNING, ready=True)


@pytest.mark.parametrize("policy", [InPlace.NEVER, InPlace.ON_FAILURE])
def test_a_program_that_ends_well_ends_its_replica(policy: InPlace) -> None:
    kubelet = Kubelet(policy)
    kubelet.look()

    assert kubelet.end("main", 0) == Lifecycle(SUCCEEDED, exit_code=0)


def test_a_program_that_fails_and_is_not_started_again_fails_its_replica() -> None:
    kubelet = Kubelet(InPlace.NEVER)
    kubelet.look()

    assert kubelet.end("main", 3) == Lifecycle(FAILED, exit_code=3)


def test_a_program_that_fails_is_started_again_at_once_the_first_time() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE)
    kubelet.look()

    life = kubelet.end("main", 3, now=5.0)

    assert life == Lifecycle(RUNNING, start=("main",), restarts=1, exit_code=3)
    assert kubelet.look(6.0) == Lifecycle(RUNNING, ready=True, restarts=1, exit_code=3)


def test_a_program_that_keeps_failing_is_started_again_ever_more_rarely() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE)
    kubelet.look()
    now, waits = 0.0, []
    for _ in range(8):
        life = kubelet.end("main", 1, now)
        due = now if life.wake_at is None else life.wake_at
        waits.append(due - now)
        assert life.ready is False
        assert (life.start == ("main",)) is (due == now)
        if due > now:
            assert kubelet.look(due - 0.1).start == ()
            assert kubelet.look(due).start == ("main",)
        now = due

    assert waits == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    assert kubelet.look(now).restarts == 8


@pytest.mark.parametrize(("lived", "wait"), [(599.0, 20.0), (600.0, 0.0)])
def test_ten_healthy_minutes_set_the_back_off_back(lived: float, wait: float) -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE)
    kubelet.look()
    kubelet.end("main", 1, now=0.0)
    kubelet.end("main", 1, now=0.0)
    kubelet.look(10.0)

    life = kubelet.end("main", 1, now=10.0 + lived)

    assert life.wake_at == (10.0 + lived + wait if wait else None)
    assert life.restarts == 3


def test_after_ten_healthy_minutes_the_back_off_begins_anew() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE)
    kubelet.look()
    kubelet.end("main", 1, now=600.0)

    assert kubelet.end("main", 1, now=601.0).wake_at == 611.0


def test_a_program_under_always_is_started_again_although_it_ended_well() -> None:
    kubelet = Kubelet(InPlace.ALWAYS)
    kubelet.look()

    first = kubelet.end("main", 0, now=1.0)
    second = kubelet.end("main", 0, now=2.0)

    assert first == Lifecycle(RUNNING, start=("main",), restarts=1, exit_code=0)
    assert second == Lifecycle(RUNNING, wake_at=12.0, restarts=2, exit_code=0)


def test_restarts_are_ends_that_were_not_the_last() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE)
    kubelet.look()
    kubelet.end("main", 1)
    kubelet.end("main", 1)
    kubelet.look(10.0)

    assert kubelet.end("main", 0, now=20.0) == Lifecycle(SUCCEEDED, restarts=2, exit_code=0)


# Several containers.


def test_a_replica_runs_until_its_last_container_ends() -> None:
    kubelet = Kubelet(InPlace.NEVER, container("main"), container("other"))

    first = kubelet.look()
    half = kubelet.end("main", 0)
    whole = kubelet.end("other", 0)

    assert first.start == ("main", "other")
    assert half == Lifecycle(RUNNING, exit_code=0)
    assert whole == Lifecycle(SUCCEEDED, exit_code=0)


def test_a_replica_is_ready_when_all_its_containers_run() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE, container("main"), container("other"))
    kubelet.look()
    assert kubelet.look().ready is True
    kubelet.end("other", 1)
    waiting = kubelet.end("other", 1, now=1.0)

    assert waiting == Lifecycle(RUNNING, wake_at=11.0, restarts=2)


@pytest.mark.parametrize(("main", "other", "code"), [(0, 7, 7), (3, 0, 3), (3, 7, 3)])
def test_one_failed_container_fails_the_replica(main: int, other: int, code: int) -> None:
    kubelet = Kubelet(InPlace.NEVER, container("main"), container("other"))
    kubelet.look()
    kubelet.end("main", main)

    assert kubelet.end("other", other) == Lifecycle(FAILED, exit_code=code)


def test_the_main_containers_exit_code_is_told_although_it_is_not_the_first() -> None:
    pod = PodSpec(containers=(container("other"), container("main")))
    states = {"other": ContainerHistory(ended=1, exit_code=7), "main": ContainerHistory(ended=1, exit_code=3)}

    assert kubelet.decide(pod, InPlace.NEVER, "main", states, 0.0) == Lifecycle(FAILED, exit_code=3)


def test_the_earliest_back_off_wakes() -> None:
    kubelet = Kubelet(InPlace.ON_FAILURE, container("main"), container("other"))
    kubelet.look()
    kubelet.end("main", 1, now=0.0)
    kubelet.end("other", 1, now=0.0)
    kubelet.end("other", 1, now=3.0)

    assert kubelet.end("main", 1, now=5.0).wake_at == 13.0


# Init containers.


def test_init_containers_run_one_after_the_other_before_the_others() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(container("one"), container("two")))

    assert kubelet.look() == Lifecycle(PENDING, start=("one",))
    assert kubelet.look() == Lifecycle(PENDING)
    assert kubelet.end("one", 0) == Lifecycle(PENDING, start=("two",))
    assert kubelet.end("two", 0) == Lifecycle(RUNNING, start=("main",))
    assert kubelet.end("main", 0) == Lifecycle(SUCCEEDED, exit_code=0)


def test_a_failed_init_container_fails_a_replica_that_does_not_restart() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(container("one"), container("two")))
    kubelet.look()

    assert kubelet.end("one", 4) == Lifecycle(FAILED, exit_code=4)


@pytest.mark.parametrize("policy", [InPlace.ON_FAILURE, InPlace.ALWAYS])
def test_a_failed_init_container_is_started_again_until_it_is_through(policy: InPlace) -> None:
    kubelet = Kubelet(policy, init=(container("one"),))
    kubelet.look()

    first = kubelet.end("one", 4, now=1.0)
    second = kubelet.end("one", 4, now=2.0)
    kubelet.look(12.0)
    through = kubelet.end("one", 0, now=13.0)

    assert first == Lifecycle(PENDING, start=("one",), restarts=1)
    assert second == Lifecycle(PENDING, wake_at=12.0, restarts=2)
    assert through == Lifecycle(RUNNING, start=("main",), restarts=2)


def test_an_init_container_that_is_through_is_not_run_again_when_the_program_restarts() -> None:
    kubelet = Kubelet(InPlace.ALWAYS, init=(container("one"),))
    kubelet.look()
    kubelet.end("one", 0)

    assert kubelet.end("main", 1) == Lifecycle(RUNNING, start=("main",), restarts=1, exit_code=1)


# Sidecars.


def test_a_sidecar_starts_first_and_the_others_follow_as_soon_as_it_runs() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(), container("one")))

    assert kubelet.look() == Lifecycle(PENDING, start=("proxy",))
    assert kubelet.look() == Lifecycle(PENDING, start=("one",))
    assert kubelet.end("one", 0) == Lifecycle(RUNNING, start=("main",))
    assert kubelet.look() == Lifecycle(RUNNING, ready=True)


@pytest.mark.parametrize(("code", "phase"), [(0, SUCCEEDED), (3, FAILED)])
def test_a_sidecar_is_stopped_when_the_work_is_over_and_that_is_no_restart(
    code: int, phase: ReplicaPhase
) -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(),))
    kubelet.look()
    kubelet.look()

    over = kubelet.end("main", code)
    after = kubelet.look(1.0)

    assert over == Lifecycle(phase, stop=("proxy",), exit_code=code)
    assert after == Lifecycle(phase, exit_code=code)


def test_a_sidecar_that_ends_while_there_is_work_is_started_again() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(),))
    kubelet.look()
    kubelet.look()

    first = kubelet.end("proxy", 0, now=1.0)
    second = kubelet.end("proxy", 1, now=2.0)

    assert first == Lifecycle(RUNNING, start=("proxy",), ready=True, restarts=1)
    assert second == Lifecycle(RUNNING, wake_at=12.0, ready=True, restarts=2)


def test_the_restart_of_a_sidecar_that_outlives_the_work_stays_counted() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(),))
    kubelet.look()
    kubelet.look()
    kubelet.end("proxy", 1, now=1.0)

    over = kubelet.end("main", 0, now=2.0)
    after = kubelet.look(3.0)

    assert over == Lifecycle(SUCCEEDED, stop=("proxy",), restarts=1, exit_code=0)
    assert after == Lifecycle(SUCCEEDED, restarts=1, exit_code=0)


def test_a_sidecar_that_ends_before_the_work_begins_holds_it_up() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(), container("one")))
    kubelet.look()
    kubelet.look()
    kubelet.end("proxy", 1, now=1.0)
    waiting = kubelet.end("proxy", 1, now=2.0)

    assert waiting == Lifecycle(PENDING, wake_at=12.0, restarts=2)
    assert kubelet.look(12.0).start == ("proxy",)


def test_a_sidecar_is_stopped_when_an_init_container_fails() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar(), container("one")))
    kubelet.look()
    kubelet.look()

    failed = kubelet.end("one", 5)
    after = kubelet.look(1.0)

    assert failed == Lifecycle(FAILED, stop=("proxy",), exit_code=5)
    assert after == Lifecycle(FAILED, exit_code=5)


def test_a_sidecar_that_never_started_is_not_counted() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(container("one"), sidecar()))
    kubelet.look()

    assert kubelet.end("one", 5) == Lifecycle(FAILED, exit_code=5)


def test_two_sidecars_start_one_after_the_other() -> None:
    kubelet = Kubelet(InPlace.NEVER, init=(sidecar("a"), sidecar("b")))

    assert kubelet.look().start == ("a",)
    assert kubelet.look().start == ("b",)
    assert kubelet.look().start == ("main",)
    assert kubelet.end("main", 0).stop == ("a", "b")


# Transitions.


def test_a_start_keeps_the_history() -> None:
    before = ContainerHistory(ended=2, exit_code=1, started_at=1.0, ended_at=2.0, failures=2)

    assert kubelet.started(before, 9.0) == ContainerHistory(
        ended=2, running=True, exit_code=1, started_at=9.0, ended_at=2.0, failures=2
    )


def test_an_end_adds_to_the_history() -> None:
    before = ContainerHistory(ended=2, running=True, exit_code=1, started_at=9.0, ended_at=2.0, failures=2)

    assert kubelet.ended(before, 4, 10.0) == ContainerHistory(
        ended=3, running=False, exit_code=4, started_at=9.0, ended_at=10.0, failures=3
    )
