"""What is encoded is decoded again, and what is unknown or damaged does no harm."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from bireme.runtime.records import record_format
from bireme.runtime.records.record_format import (
    FileOpened,
    Histogram,
    Image,
    Params,
    RecordDecoder,
    ScalarsLayout,
    Text,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
STEPS = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.floats(allow_nan=False)
COUNTS = st.lists(st.integers(0, 2**64 - 1), max_size=5)
OTHERS = st.one_of(
    st.builds(FileOpened, NUMBERS, st.integers(0, 2**32 - 1)),
    st.builds(Text, STEPS, NUMBERS, NAMES, NAMES),
    st.builds(Image, STEPS, NUMBERS, NAMES, st.binary(), st.integers(0, 2**31), st.integers(0, 2**31)),
    st.builds(Params, NUMBERS, st.dictionaries(NAMES, st.one_of(NUMBERS, NAMES, st.booleans(), st.none()))),
    st.builds(
        lambda step, time, name, counts: Histogram(
            step, time, name, tuple(counts), tuple(float(i) for i in range(len(counts) + 1))
        ),
        STEPS,
        NUMBERS,
        NAMES,
        COUNTS,
    ),
)


@given(OTHERS)
def test_records_are_decoded_as_they_were(record: FileOpened | Text | Image | Params | Histogram) -> None:
    assert RecordDecoder().decode(record_format.encode(record)) == record


@given(STEPS, NUMBERS, st.dictionaries(NAMES, NUMBERS, min_size=1))
def test_scalars_are_decoded_as_they_were(step: int, time: float, values: dict[str, float]) -> None:
    decoder = RecordDecoder()
    for number, name in enumerate(values):
        assert decoder.decode(record_format.encode_name(number, name)) is None
    form = ScalarsLayout(range(len(values)))

    found = decoder.decode(form.pack(form.head, step, time, *values.values()))

    assert found == record_format.Scalars(step, time, values)


def test_names_mean_nothing_after_an_opening() -> None:
    decoder = RecordDecoder()
    form = ScalarsLayout([0])
    decoder.decode(record_format.encode_name(0, "loss"))
    decoder.decode(record_format.encode(FileOpened(1.0, 1)))

    assert decoder.decode(form.pack(form.head, 1, 1.0, 0.5)) is None


@given(st.binary(max_size=60))
def test_what_is_unknown_is_skipped(payload: bytes) -> None:
    RecordDecoder().decode(payload)

    assert RecordDecoder().decode(struct.pack("<BxH", 200, 0) + payload) is None
