"""Are gangs claimed whole or not at all, never more than there is, and swept when their holders die."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest

from bireme import errors
from bireme.core.machine.admission import Capacity
from bireme.model.decisions import Demand
from bireme.model.pods import Resources
from bireme.model.replicas import Waiting
from bireme.model.status import Phase
from bireme.runs.directory import RunDirectory
from bireme.runs.ledger import TICKET_GRACE, Grant, Ledger
from bireme.runs.run_files import RunId
from bireme.runs.storage.locks import FileLock
from tests.unit.runs.run_fixtures import (
    actor,
    ended,
    eventually,
    finish,
    forked,
    gang,
    kill,
    make_run,
    said,
    tell,
)

GPU = "nvidia.com/gpu"
FOUR = Capacity(cpu=4000, memory=8 * 1024**3, devices={GPU: ("0", "1")})


def ledger(home: Path, alive: Callable[[RunId], bool] = lambda run: False) -> Ledger:
    return Ledger(home, lambda: FOUR, alive, random.Random(1))


def granted(answer: Grant | Waiting) -> Grant:
    assert isinstance(answer, Grant), answer
    return answer


def waits(answer: Grant | Waiting) -> str:
    assert isinstance(answer, Waiting), answer
    return answer.reason


def holders(home: Path) -> list[str]:
    return [str(claim.run) for claim in ledger(home).holders()]


def run_of(home: Path, name: str) -> tuple[RunId, FileLock]:
    run, lock = make_run(home, name)
    return run.id, lock


def test_an_attempt_gets_ports_and_devices_for_each_replica(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")

    grant = granted(ledger(tmp_path).admit(run, 0, gang(2, ports=("a", "b"), devices={GPU: 1}), now=1.0))

    numbers = [port for names in grant.ports.values() for port in names.values()]
    assert set(grant.ports) == {"worker-0", "worker-1"}
    assert len(set(numbers)) == 4
    assert grant.devices == {"worker-0": {GPU: ("0",)}, "worker-1": {GPU: ("1",)}}
    assert holders(tmp_path) == ["mnist"]


def test_the_same_question_has_the_same_answer(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    demands = gang(2, ports=("a",))

    first = ledger(tmp_path).admit(run, 0, demands, now=1.0)

    assert ledger(tmp_path).admit(run, 0, demands, now=2.0) == first


def test_two_runs_never_get_the_same_port(tmp_path: Path) -> None:
    first, _first = run_of(tmp_path, "first")
    second, _second = run_of(tmp_path, "second")

    # Both begin their search at the same port, because chance has the same seed.
    one = granted(ledger(tmp_path).admit(first, 0, gang(2, ports=("a",)), now=1.0))
    two = granted(ledger(tmp_path).admit(second, 0, gang(2, ports=("a",)), now=1.0))

    assert len({names["a"] for grant in (one, two) for names in grant.ports.values()}) == 4


def test_a_new_attempt_keeps_devices_and_gets_fresh_ports(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    other, _other = run_of(tmp_path, "other")
    book = ledger(tmp_path)
    first = granted(book.admit(run, 0, gang(2, cpu=2000, ports=("a",), devices={GPU: 1}), now=1.0))
    assert waits(book.admit(other, 0, gang(1), now=1.5))

    second = granted(book.admit(run, 1, gang(2, cpu=2000, ports=("a",), devices={GPU: 1}), now=1000.0))

    assert second.devices == first.devices
    assert second.attempt == 1
    assert second.ports.keys() == first.ports.keys()
    assert all(second.ports[replica]["a"] != first.ports[replica]["a"] for replica in first.ports)


def test_more_replicas_within_an_attempt_leave_the_others_as_they_are(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    book = ledger(tmp_path)
    first = granted(book.admit(run, 0, gang(1, ports=("a",), devices={GPU: 1}), now=1.0))

    second = granted(book.admit(run, 0, gang(2, ports=("a",), devices={GPU: 1}), now=2.0))

    assert second.ports["worker-0"] == first.ports["worker-0"]
    assert second.devices["worker-0"] == first.devices["worker-0"]
    assert second.ports["worker-1"] != first.ports["worker-0"]


def test_more_replicas_that_do_not_fit_take_nothing_away(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    other, _other = run_of(tmp_path, "other")
    book = ledger(tmp_path)
    book.admit(run, 0, gang(2), now=1.0)
    book.admit(other, 0, gang(1), now=1.0)

    assert waits(book.admit(run, 0, gang(4), now=2.0)) == "needs 4 cpus, 3 free; held by other (1)"

    assert {str(one.run): one.held.cpu for one in book.holders()} == {"mnist": 2000, "other": 1000}


def test_a_new_attempt_that_needs_more_queues_with_empty_hands(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    other, _other = run_of(tmp_path, "other")
    book = ledger(tmp_path)
    book.admit(run, 0, gang(2), now=1.0)
    book.admit(other, 0, gang(2), now=1.0)

    assert waits(book.admit(run, 1, gang(4), now=2.0))

    assert holders(tmp_path) == ["other"]
    granted(book.admit(other, 0, gang(4), now=2.0))


def test_who_waits_is_told_for_what_and_gets_it_after_the_release(tmp_path: Path) -> None:
    first, _first = run_of(tmp_path, "first")
    second, _second = run_of(tmp_path, "second")
    book = ledger(tmp_path)
    book.admit(first, 0, gang(3), now=1.0)
    ear = RunDirectory(tmp_path, second).wake_fd()

    assert waits(book.admit(second, 0, gang(2), now=2.0)) == "needs 2 cpus, 1 free; held by first (3)"
    assert [ticket.run for ticket in book.queue()] == [second]
    book.release(first)

    assert ear.drain()
    granted(book.admit(second, 0, gang(2), now=3.0))
    assert book.queue() == ()
    ear.close()


def test_a_place_in_the_queue_is_kept_over_the_death_of_a_runner(tmp_path: Path) -> None:
    holder, _holder = run_of(tmp_path, "holder")
    early, lock = run_of(tmp_path, "early")
    late, _late = run_of(tmp_path, "late")
    book = ledger(tmp_path)
    book.admit(holder, 0, gang(4), now=0.0)
    book.admit(early, 0, gang(4), now=1.0)
    book.admit(late, 0, gang(4), now=2.0)

    lock.close()
    assert "behind" not in waits(book.admit(late, 0, gang(4), now=TICKET_GRACE))
    with RunDirectory(tmp_path, early).hold() or pytest.fail("held"):
        book.admit(early, 0, gang(4), now=TICKET_GRACE)
        assert waits(book.admit(late, 0, gang(4), now=TICKET_GRACE)).endswith("behind early in the queue")
    book.admit(late, 0, gang(4), now=3 * TICKET_GRACE)

    with RunDirectory(tmp_path, early).hold() or pytest.fail("held"):
        assert waits(book.admit(early, 0, gang(4), now=3 * TICKET_GRACE)).endswith("behind late in the queue")


def test_cpu_beyond_the_machine_is_capped_with_a_sentence(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")

    grant = granted(ledger(tmp_path).admit(run, 0, gang(8), now=1.0))

    assert grant.note == "asks for 8 cpus, this machine has 4: its replicas share 4"
    assert ledger(tmp_path).admit(run, 0, gang(8), now=2.0) == grant


def test_what_can_never_fit_is_refused(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    huge = (Demand("worker-0", Resources(memory=9 * 1024**3, devices={GPU: 3})),)

    with pytest.raises(errors.NoRoom) as refusal:
        ledger(tmp_path).admit(run, 0, huge, now=1.0)

    assert refusal.value.what == (
        "mnist needs 9 GiB of memory, this machine has 8 GiB; needs 3 GPUs, this machine has 2"
    )
    assert ledger(tmp_path).queue() == ()


def test_a_claim_lives_while_its_ranks_do(tmp_path: Path) -> None:
    first, lock = run_of(tmp_path, "first")
    second, _second = run_of(tmp_path, "second")
    ledger(tmp_path).admit(first, 0, gang(4), now=1.0)
    lock.close()

    assert waits(ledger(tmp_path, alive=lambda run: run == first).admit(second, 0, gang(4), now=2.0))
    granted(ledger(tmp_path, alive=lambda run: False).admit(second, 0, gang(4), now=3.0))
    assert not RunDirectory(tmp_path, first).claim_path.exists()


def test_the_claim_of_a_killed_holder_is_swept(tmp_path: Path) -> None:
    holder = actor("claim", tmp_path, "holder", 4)
    assert said(holder) == "ready"
    tell(holder, "go")
    assert said(holder).startswith("granted")
    run, _lock = run_of(tmp_path, "mnist")
    assert waits(ledger(tmp_path).admit(run, 0, gang(1), now=1.0))

    kill(holder)

    assert holders(tmp_path) == []
    granted(ledger(tmp_path).admit(run, 0, gang(1), now=2.0))
    assert holders(tmp_path) == ["mnist"]


def test_ten_at_once_never_have_more_than_there_is_and_all_get_their_turn(tmp_path: Path) -> None:
    sizes = [4, 3, 2, 2, 1, 1, 1, 4, 2, 3]
    waiting = [actor("claim", tmp_path, f"job-{index}", size) for index, size in enumerate(sizes)]
    for one in waiting:
        assert said(one) == "ready"
    for one in waiting:
        tell(one, "go")

    finished = 0
    while finished < len(sizes):
        claims = ledger(tmp_path).holders()
        gangs = [len(claim.demands) for claim in claims]
        numbers = [
            port for claim in claims for names in claim.grant.ports.values() for port in names.values()
        ]
        assert sum(gangs) <= 4
        assert sum(claim.held.cpu for claim in claims) == 1000 * sum(gangs)
        assert len(numbers) == len(set(numbers)) == sum(gangs)
        for claim in claims:
            index = int(claim.run.name.removeprefix("job-"))
            assert len(claim.demands) == sizes[index]
            assert said(waiting[index]).startswith("granted")
            tell(waiting[index], "end")
            assert finish(waiting[index]) == 0
            finished += 1

    assert holders(tmp_path) == []


def claim_and_release(book: Ledger, run: RunId, say: Callable[[str], None]) -> None:
    parent = os.getppid()
    attempt = 0
    while os.getppid() == parent:
        book.admit(run, attempt, gang(4, ports=("a",)), now=float(attempt))
        book.release(run)
        attempt += 1


def test_killed_at_any_instant_nobody_leaves_half_a_claim(tmp_path: Path) -> None:
    for round in range(20):
        run, lock = run_of(tmp_path, f"job-{round}")
        child = forked(partial(claim_and_release, ledger(tmp_path), run))
        lock.close()
        eventually(RunDirectory(tmp_path, run).claim_path.exists)
        child.kill()

        assert ledger(tmp_path).holders() == ()

    last, _lock = run_of(tmp_path, "last")
    granted(ledger(tmp_path).admit(last, 0, gang(4), now=1.0))


@pytest.mark.parametrize("damage", ["missing", "garbage", "empty", "cut", "no tables", "another start"])
def test_a_lost_ledger_is_made_again_from_the_run_directories(tmp_path: Path, damage: str) -> None:
    first, _first = run_of(tmp_path, "first")
    second, _second = run_of(tmp_path, "second")
    grant = ledger(tmp_path).admit(first, 0, gang(3, ports=("a",)), now=1.0)
    before = ledger(tmp_path).runs()

    spoil(tmp_path / "bireme.db", damage)

    assert holders(tmp_path) == ["first"]
    assert ledger(tmp_path).admit(first, 0, gang(3, ports=("a",)), now=2.0) == grant
    assert waits(ledger(tmp_path).admit(second, 0, gang(2), now=2.0))
    assert ledger(tmp_path).runs() == before


def spoil(path: Path, damage: str) -> None:
    match damage:
        case "missing":
            path.unlink()
        case "garbage":
            path.write_bytes(b"not a database, " * 1000)
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(path.read_bytes()[:6000])
        case "no tables":
            _execute(path, "DROP TABLE claims")
        case "another start":
            _execute(path, "UPDATE machine SET boot = 'before'")


def _execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_lost_ledger_is_made_again_while_others_use_what_is_left_of_it_all_the_time(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    assert book.queue() == ()
    _execute(tmp_path / "bireme.db", "DROP TABLE tickets")
    busy = [forked(partial(look_all_the_time, book)) for _ in range(4)]
    for one in busy:
        assert one.heard() == "looking"

    assert book.queue() == ()


def look_all_the_time(book: Ledger, say: Callable[[str], None]) -> None:
    parent = os.getppid()
    book.holders()
    say("looking")
    while os.getppid() == parent:
        book.holders()


def test_a_claim_of_another_machine_or_start_is_not_restored(tmp_path: Path) -> None:
    run, _lock = run_of(tmp_path, "mnist")
    ledger(tmp_path).admit(run, 0, gang(3), now=1.0)
    path = RunDirectory(tmp_path, run).claim_path
    claim = msgspec.json.decode(path.read_bytes())
    claim["machine"]["boot"] = "before"
    path.write_bytes(msgspec.json.encode(claim))

    (tmp_path / "bireme.db").unlink()

    assert ledger(tmp_path).holders() == ()


def test_a_ledger_of_a_newer_bireme_is_left_alone(tmp_path: Path) -> None:
    ledger(tmp_path).runs()
    _execute(tmp_path / "bireme.db", "PRAGMA user_version = 99")

    with pytest.raises(errors.BadInput, match="was made by a newer Bireme"):
        ledger(tmp_path).runs()


def test_runs_are_listed_as_their_directories_say(tmp_path: Path) -> None:
    old, _ = make_run(tmp_path, "old", created=1.0)
    new, _ = make_run(tmp_path, "new", created=2.0)
    book = ledger(tmp_path)
    assert [(str(row.id), row.phase) for row in book.runs()] == [
        ("new", Phase.CREATED),
        ("old", Phase.CREATED),
    ]

    old.write_status(msgspec.structs.replace(ended(), expired=True))
    again, _ = make_run(tmp_path, "old", created=3.0)
    new.delete()

    rows = book.runs()
    assert [str(row.id) for row in rows] == ["old#2", "old"]
    assert [row.is_active for row in rows] == [True, False]
    assert (rows[1].phase, rows[1].finished, rows[1].hidden) == (Phase.SUCCEEDED, 5.0, True)
    assert (rows[0].kind, rows[0].path, rows[0].host) == (
        "PyTorchJob",
        again.path,
        again.context().machine.host,
    )


def test_a_damaged_run_is_listed_without_a_phase(tmp_path: Path) -> None:
    run, _ = make_run(tmp_path)
    (run.path / "status.json").write_text("{")

    assert [(row.id, row.phase, row.is_active) for row in ledger(tmp_path).runs()] == [(run.id, None, False)]


def test_a_removed_run_leaves_nothing(tmp_path: Path) -> None:
    run, lock = make_run(tmp_path)
    book = ledger(tmp_path)
    book.admit(run.id, 0, gang(2), now=1.0)
    lock.close()

    book.remove(run.id)
    book.remove(run.id)

    assert not run.path.exists()
    assert book.runs() == ()
    assert book.holders() == ()
