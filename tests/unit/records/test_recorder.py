"""What is reported is kept, and what cannot be kept is said once and never raised."""

from __future__ import annotations

import math
import signal
import threading
from decimal import Decimal
from fractions import Fraction
from types import FrameType

import pytest

from bireme.runtime.records import record_format, record_reader
from bireme.runtime.records.record_file import RecordFile
from bireme.runtime.records.record_format import Histogram, Image, Params, Text
from bireme.runtime.records.recorder import RETRY_AFTER
from tests.unit.records.recorder_fixtures import Bench


def test_scalars_are_there_as_soon_as_they_are_reported(bench: Bench) -> None:
    recorder = bench.recorder()

    recorder.scalars(1, {"loss": 0.5, "count": 3, "best": True})
    recorder.scalars(2, {"loss": 0.25})
    recorder.scalars(3, {"loss": 0.125})

    assert bench.scalars() == [
        (1, {"loss": 0.5, "count": 3.0, "best": 1.0}),
        (2, {"loss": 0.25}),
        (3, {"loss": 0.125}),
    ]


def test_nothing_is_made_before_something_is_reported(bench: Bench) -> None:
    bench.recorder().close()

    assert not bench.folder.exists()


def test_all_kinds_of_records_are_kept_in_order(bench: Bench) -> None:
    recorder = bench.recorder()

    recorder.params({"lr": 0.1, "layers": [1, 2], "type": int})
    recorder.text(1, "sample", "a b")
    recorder.histogram(2, "weights", [0.0, 1.0, [2.0, float("nan")]])
    recorder.image(3, "picture", [[0, 255]])
    recorder.close()

    params, text, histogram, image = bench.records()
    assert params == Params(1000.0, {"lr": 0.1, "layers": [1, 2], "type": "<class 'int'>"})
    assert text == Text(1, 1000.0, "sample", "a b")
    assert isinstance(histogram, Histogram)
    assert (sum(histogram.counts), histogram.edges[0], histogram.edges[-1]) == (3, 0.0, 2.0)
    assert isinstance(image, Image)
    assert (image.width, image.height, image.png[:4]) == (2, 1, b"\x89PNG")
    assert bench.told == []


def test_many_records_grow_the_file_and_the_end_gives_room_back(bench: Bench) -> None:
    recorder = bench.recorder()

    for step in range(30_000):
        recorder.scalars(step, {"loss": step / 2, "accuracy": 0.5})
        if step % 10_000 == 0:
            recorder.text(step, "long", "x" * 300_000)
    recorder.close()

    assert bench.scalars() == [(step, {"loss": step / 2, "accuracy": 0.5}) for step in range(30_000)]
    (file,) = bench.folder.iterdir()
    assert file.stat().st_size < 30_000 * 60 + 3 * 300_000 + 1000


def test_a_reader_goes_on_where_it_was(bench: Bench) -> None:
    recorder = bench.recorder(rank=3, attempt=2)
    recorder.scalars(1, {"loss": 1.0})
    (file,) = record_reader.files(str(bench.folder))
    reader = record_reader.RecordReader(file.path)

    first = reader.read()
    nothing = reader.read()
    recorder.scalars(2, {"loss": 2.0, "more": 3.0})
    second = reader.read()

    assert (file.rank, file.attempt) == (3, 2)
    assert isinstance(first[0], record_format.FileOpened)
    assert first[1:] == [record_format.Scalars(1, 1000.0, {"loss": 1.0})]
    assert nothing == []
    assert second == [record_format.Scalars(2, 1000.0, {"loss": 2.0, "more": 3.0})]


def test_a_restart_of_the_rank_appends(bench: Bench) -> None:
    first = bench.recorder()
    first.scalars(1, {"loss": 1.0})
    first.close()

    second = bench.recorder()
    second.scalars(2, {"other": 2.0})
    second.close()

    assert len(list(bench.folder.iterdir())) == 1
    assert bench.scalars() == [(1, {"loss": 1.0}), (2, {"other": 2.0})]


def test_two_processes_of_one_rank_do_not_write_into_one_file(bench: Bench) -> None:
    one, other = bench.recorder(), bench.recorder()

    one.scalars(1, {"loss": 1.0})
    other.scalars(2, {"loss": 2.0})
    one.scalars(3, {"loss": 3.0})

    assert sorted(path.name for path in bench.folder.iterdir()) == ["0-0-1.records", "0-0.records"]
    assert bench.scalars() == [(1, {"loss": 1.0}), (3, {"loss": 3.0}), (2, {"loss": 2.0})]


@pytest.mark.parametrize(
    ("value", "kept"),
    [(Decimal("0.5"), 0.5), (Fraction(1, 4), 0.25), (10**20, 1e20), (-3, -3.0), (False, 0.0)],
)
def test_numbers_of_all_kinds_are_kept(bench: Bench, value: object, kept: float) -> None:
    recorder = bench.recorder()

    recorder.scalars(1, {"x": value})
    recorder.scalars(2, {"x": value})

    assert bench.scalars() == [(1, {"x": kept}), (2, {"x": kept})]


@pytest.mark.parametrize("value", ["0.5", None, [1.0], object(), 10**400, 1j])
def test_what_is_no_number_is_told_once_by_name_and_skipped(bench: Bench, value: object) -> None:
    recorder = bench.recorder()
    recorder.scalars(0, {"loss": 1.0, "x": 1.0})

    for step in range(1, 4):
        recorder.scalars(step, {"loss": 0.5, "x": value})

    assert bench.scalars()[1:] == [(step, {"loss": 0.5}) for step in range(1, 4)]
    (sentence,) = bench.told
    assert sentence.startswith("x is not recorded: ")


@pytest.mark.parametrize("step", ["1", 1.5, None, 2**63])
def test_a_step_that_is_no_whole_number_is_told(bench: Bench, step: int) -> None:
    recorder = bench.recorder()
    recorder.scalars(1, {"loss": 0.5})

    recorder.scalars(step, {"loss": 0.5})

    assert len(bench.scalars()) == 1
    assert len(bench.told) == 1
    assert "step" in bench.told[0]


def test_a_step_may_be_a_float_that_is_whole(bench: Bench) -> None:
    recorder = bench.recorder()

    for _ in range(2):
        recorder.scalars(3.0, {"loss": 0.5})  # type: ignore[arg-type]

    assert bench.scalars() == [(3, {"loss": 0.5})] * 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_the_first_number_that_is_not_finite_is_kept_and_told(bench: Bench, value: float) -> None:
    recorder = bench.recorder()
    for step in range(3):
        recorder.scalars(step, {"loss": 1.0, "other": 1.0})

    recorder.scalars(3, {"loss": value, "other": 1.0})
    recorder.scalars(4, {"loss": 1.0, "other": value})

    assert recorder.not_finite == ("loss", 3)
    assert bench.told == [f"loss is {value} at step 3"]
    step, values = bench.scalars()[3]
    assert step == 3
    assert values["loss"] == value or math.isnan(values["loss"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([[1, 2], [3]], "same length"),
        (b"GIF89a", "not a PNG"),
        ([[[1, 2]], [[1, 2]]], "channels"),
        ("abc", "height x width"),
        ([], "height x width"),
    ],
)
def test_what_is_no_image_is_told(bench: Bench, data: object, why: str) -> None:
    bench.recorder().image(1, "picture", data)

    (sentence,) = bench.told
    assert sentence.startswith("picture is not recorded: ")
    assert why in sentence


@pytest.mark.parametrize("values", [[], "abc", 3.0, [float("nan")], ["x"], [-1.7e308, 1.7e308]])
def test_what_is_no_histogram_is_told(bench: Bench, values: object) -> None:
    bench.recorder().histogram(1, "weights", values)

    assert len(bench.told) == 1
    assert bench.told[0].startswith("weights is not recorded: ")


@pytest.mark.parametrize("values", [[3.0] * 5, [0.0], [1e300, 1.0000001e300], [5e-324, 1e-323]])
def test_a_histogram_counts_every_value(bench: Bench, values: list[float]) -> None:
    bench.recorder().histogram(1, "weights", values)

    (found,) = bench.records()
    assert isinstance(found, Histogram)
    assert sum(found.counts) == len(values)
    assert list(found.edges) == sorted(set(found.edges))


def test_threads_report_at_the_same_time(bench: Bench) -> None:
    recorder = bench.recorder()

    def report(thread: int) -> None:
        for step in range(2000):
            recorder.scalars(step, {f"loss{thread}": float(step)})

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = bench.scalars()
    for number in range(4):
        name = f"loss{number}"
        assert [step for step, values in found if name in values] == list(range(2000))


def test_a_signals_handler_may_report_in_the_middle_of_a_report(bench: Bench) -> None:
    recorder = bench.recorder()
    handled = 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal handled
        handled += 1
        own = handled  # this handler, too, may be interrupted by itself
        recorder.scalars(own, {"signal": float(own)})

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    step = 0
    try:
        while handled < 200:
            recorder.scalars(step, {"loss": float(step)})
            step += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    recorder.close()

    found = bench.scalars()
    assert [at for at, values in found if "loss" in values] == list(range(step))
    assert sorted(at for at, values in found if "signal" in values) == list(range(1, handled + 1))


def test_a_folder_that_cannot_be_is_told_once_and_tried_again(bench: Bench) -> None:
    bench.folder.write_text("a file stands where the folder would be")
    recorder = bench.recorder()

    for step in range(5):
        recorder.scalars(step, {"loss": 1.0})
        recorder.text(step, "note", "a")
    bench.folder.unlink()
    recorder.scalars(5, {"loss": 1.0})
    bench.now += RETRY_AFTER
    recorder.scalars(6, {"loss": 1.0})

    assert recorder.dropped == 11
    refused, again = bench.told
    assert refused.startswith(f"what is reported cannot be kept in {bench.folder}: ")
    assert refused.endswith("training continues")
    assert again == f"what is reported is kept again in {bench.folder}; 11 records are lost"
    assert bench.scalars() == [(6, {"loss": 1.0})]


def test_after_the_end_nothing_is_recorded_and_nothing_is_raised(bench: Bench) -> None:
    recorder = bench.recorder()
    recorder.scalars(1, {"loss": 1.0})
    recorder.close()

    recorder.scalars(2, {"loss": 1.0})
    recorder.close()

    assert bench.scalars() == [(1, {"loss": 1.0})]
    assert recorder.dropped == 1


def test_somebody_who_cannot_listen_stops_nothing(bench: Bench) -> None:
    def tell(sentence: str) -> None:
        raise BrokenPipeError

    recorder = bench.recorder()
    recorder._tell = tell

    recorder.scalars(1, {"loss": "x"})


def test_where_files_cannot_be_mapped_they_are_written_to(bench: Bench) -> None:
    bench.folder.mkdir()
    space = RecordFile(str(bench.folder), 0, 0)
    space._can_map = False  # there is no file system here that really refuses

    for number in range(100):
        space.put(record_format.encode(Text(number, 1.0, "note", "x" * number)))
    space.close()

    assert [one.step for one in bench.records() if isinstance(one, Text)] == list(range(100))
