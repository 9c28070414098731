"""A log that is read again from a whole second gives each line once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bireme.backends.kubernetes.pod_logs import LogPosition, has_ended, nanoseconds
from tests.sdk.clusterobjects import ended, pod


@pytest.mark.parametrize(
    ("stamp", "found"),
    [
        (b"1970-01-01T00:00:01Z", 10**9),
        (b"1970-01-01T00:00:01.5Z", 15 * 10**8),
        (b"1970-01-01T00:00:01.123456789Z", 1_123_456_789),
        (b"1970-01-01T01:00:01.000000001+01:00", 1_000_000_001),
        (b"not", None),
        (b"", None),
    ],
)
def test_times_are_read_to_the_nanosecond(stamp: bytes, found: int | None) -> None:
    assert nanoseconds(stamp) == found


def _log(times: list[int]) -> list[bytes]:
    return [
        b"1970-01-01T00:00:%02d.%09dZ %d" % (*divmod(at, 10**9), number) for number, at in enumerate(times)
    ]


@given(
    times=st.lists(st.integers(0, 5 * 10**9 - 1) | st.sampled_from([10**9, 2 * 10**9]), max_size=20),
    breaks=st.lists(st.integers(0, 20), max_size=4),
)
def test_over_any_breaks_every_line_comes_once_in_its_order(times: list[int], breaks: list[int]) -> None:
    log = _log(sorted(times))
    mark = LogPosition()
    got = []

    for end in [*sorted(breaks), len(log)]:
        since = mark.query().get("sinceTime")
        begin = nanoseconds(since.encode()) if since else 0
        passed = mark.news()
        for line in log[:end]:
            at = nanoseconds(line.partition(b" ")[0])
            if at is not None and begin is not None and at >= begin and (new := passed(line)) is not None:
                got.append(new[1])

    assert got == [line.partition(b" ")[2] for line in log]


def test_only_what_is_new_enough_passes() -> None:
    passed = LogPosition(since=2.5).news()

    assert [passed(line) is not None for line in _log([10**9, 25 * 10**8, 3 * 10**9])] == [False, True, True]


def test_a_container_has_ended_when_nothing_will_start_it_again() -> None:
    assert has_ended(None, "pytorch")
    assert has_ended(pod("worker-0", ended(1, 3)), "pytorch")
    assert not has_ended(pod("worker-0"), "pytorch")
    assert has_ended(pod("worker-0", phase="Succeeded"), "pytorch")
