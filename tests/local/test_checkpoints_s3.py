"""Are checkpoints kept in a real S3 server: SeaweedFS, which checks signatures."""

from __future__ import annotations

import time

import pytest

import bireme
from bireme.runtime.checkpoints.consensus import Patience
from bireme.runtime.checkpoints.manager import Checkpoints, Keep, Owner, listed, verified
from bireme.runtime.checkpoints.storage import object_store
from bireme.runtime.script.complaints import Complaint
from tests.local import s3_server

pytestmark = [pytest.mark.slow, s3_server.needed]
SIZE = 11_000_000


@pytest.fixture
def where(s3_prefix: str) -> str:
    return s3_prefix


def opened(where: str, heard: list[str], run: str = "run", rank: int = 0, world: int = 1) -> Checkpoints:
    return Checkpoints(where, Owner(run, rank, world), Keep(last=2), heard.append)


def test_ranks_save_and_restore_and_old_ones_go(where: str) -> None:
    heard: list[str] = []
    gang = [opened(where, heard, rank=rank, world=2) for rank in range(2)]
    for step in (1, 2, 3):
        for rank, one in enumerate(gang):
            one.save(step, {"x": bytes([step]) * SIZE}, {"rank": rank}, {"loss": 1 / step})
    restored = [one.restore({}) for one in gang]
    for one in gang:
        one.close()

    assert heard == []
    assert [one and (one.step, one.own) for one in restored] == [(3, {"rank": 0}), (3, {"rank": 1})]
    assert [one and one.values["x"] == b"\3" * SIZE for one in restored] == [True, True]
    assert [one.step for one in verified(where) if one.is_good] == [2, 3]
    assert not [
        path
        for path in object_store.Bucket(where).objects()
        if path.startswith((".staging", "step-000000001"))
    ]


def test_one_line_loads_the_newest_or_one_that_is_named(where: str) -> None:
    one = opened(where, [])
    for step in (1, 2):
        one.save(step, {"x": step}, {}, {})
    one.close()

    assert bireme.load(where) == {"x": 2}
    assert bireme.load(f"{where}@1") == bireme.load(f"{where}/step-000000001") == {"x": 1}
    with pytest.raises(Complaint, match="the steps that are there: 1, 2"):
        bireme.load(f"{where}@7")


def test_what_was_never_finished_is_not_seen_and_is_cleared_away(where: str) -> None:
    heard: list[str] = []
    one = opened(where, heard)
    one.save(1, {"x": 1}, {}, {})
    one.wait()
    dead = object_store.Bucket(where).begin(Owner("run"), "00aa", 2, "00ff00ff")
    dead.write("rank-0.bin", [b"half"])

    restored = one.restore({})
    one.save(2, {"x": 2}, {}, {})
    again = one.restore({})

    assert restored is not None
    assert restored.values == {"x": 1}
    assert again is not None
    assert again.values == {"x": 2}
    assert [found.step for found in listed(where)] == [1, 2]


def test_a_changed_object_is_recognised(where: str) -> None:
    heard: list[str] = []
    one = opened(where, heard)
    for step in (1, 2):
        one.save(step, {"x": bytes([step]) * SIZE}, {}, {})
    one.wait()
    bucket = object_store.Bucket(where)
    name = listed(where)[-1].name
    bucket.put(f"{name}/rank-0.bin", b"\2" * (SIZE - 1) + b"\0" + bytes(-SIZE % 64))

    restored = one.restore({})

    assert restored is not None
    assert restored.step == 1
    assert heard[0].startswith(f"checkpoint {name} is torn and skipped: rank-0.bin has a wrong checksum")


def test_another_run_s_prefix_is_refused(where: str) -> None:
    heard: list[str] = []
    first, second = opened(where, heard, "first"), opened(where, heard, "second")
    first.save(1, {"x": 1}, {}, {})
    first.wait()

    with pytest.raises(Complaint, match="holds the checkpoints of another run, first"):
        second.save(2, {"x": 2}, {}, {})
    first.close()
    second.restore({})
    for step in (2, 3, 4):
        second.save(step, {"x": step}, {}, {})
    second.close()

    assert heard == [f"{where} held the checkpoints of run first; from now on it is this run's"]
    assert [(one.step, one.run) for one in listed(where)] == [(1, "first"), (3, "second"), (4, "second")]


def test_an_attempt_that_was_replaced_writes_nothing_more(where: str) -> None:
    heard: list[str] = []
    first = opened(where, heard)
    second = Checkpoints(where, Owner("run", attempt=1), Keep(last=2), heard.append)
    first.save(1, {"x": 1}, {}, {})
    first.wait()
    second.restore({})
    second.save(2, {"x": 2}, {}, {})
    second.wait()
    before = set(object_store.Bucket(where).objects())

    first.save(3, {"x": 3}, {}, {})
    first.wait()
    first.save(4, {"x": 4}, {}, {})
    first.close()

    assert heard == [
        f"step {step} was not saved: another run or a later attempt writes here now; training goes on"
        for step in (3, 4)
    ]
    assert set(object_store.Bucket(where).objects()) == before
    second.close()


def test_wrong_credentials_are_told_and_training_goes_on(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    heard: list[str] = []
    one = opened(where, heard)

    one.save(1, {"x": 1}, {}, {})
    one.close()

    assert len(heard) == 1
    assert heard[0].startswith("STEP 1 WAS NOT SAVED: ")
    assert "training goes on" in heard[0]


def test_a_store_that_cannot_be_read_is_no_reason_to_begin_anew(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    one = opened(where, [])

    with pytest.raises(Complaint, match=r"cannot be read: .*; restart when they can"):
        one.restore({})


def test_a_live_run_s_prefix_is_refused_and_nothing_of_it_is_deleted(where: str) -> None:
    heard: list[str] = []
    first, second = (
        Checkpoints(where, Owner(run), Keep(last=2), heard.append, Patience(heartbeat=0.5))
        for run in ("first", "second")
    )
    for step in (1, 2):
        first.save(step, {"x": step}, {}, {})
    first.wait()

    second.restore({})
    with pytest.raises(Complaint, match="is being written by run first"):
        second.save(3, {"x": 3}, {}, {})
    first.save(6, {"x": 6}, {}, {})
    first.close()

    assert [(one.step, one.run) for one in listed(where)] == [(2, "first"), (6, "first")]


def test_ranks_do_not_list_the_whole_prefix_while_a_save_is_in_progress(
    where: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = s3_server.Counting(s3_endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", counting.endpoint)
    heard: list[str] = []
    gang = [opened(where, heard, rank=rank, world=4) for rank in range(4)]
    for rank in (3, 2, 1):
        gang[rank].save(1, {"x": b"1"}, {}, {})
    began = time.monotonic()
    while time.monotonic() - began < 3:  # rank 0 is slow
        time.sleep(0.1)
    waiting = counting.methods()
    gang[0].save(1, {"x": b"1"}, {}, {})
    for one in gang:
        one.wait()
    saving = counting.methods() - waiting
    for one in gang:
        one.close()
    counting.close()

    assert heard == []
    print(f"\n3 s of waiting: {dict(waiting)}; the save: {dict(saving)}")
    assert waiting["LIST"] == 0
    assert waiting.total() < 100
    assert saving["LIST"] < 20
    assert saving.total() < 100
