"""Are numpy arrays saved and restored bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import keeping

numpy: Any = pytest.importorskip("numpy")
pytestmark = pytest.mark.frameworks

KINDS = [
    "?",
    "i1",
    "u2",
    ">i4",
    "<i8",
    "f2",
    "f4",
    "f8",
    "c8",
    "c16",
    "M8[ns]",
    "m8[s]",
    "S5",
    "U7",
    "bfloat16",
]


def kind(name: str) -> Any:
    if name == "bfloat16":
        return numpy.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return numpy.dtype(name)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 4), (2, 3, 4)])
def test_every_kind_of_number_comes_back_bit_for_bit(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    dtype = kind(name)
    size = int(numpy.prod(shape, dtype=int)) * dtype.itemsize
    raw = numpy.random.default_rng(3).integers(0, 2 if name == "?" else 120, size, dtype="u1")
    array = numpy.ndarray(shape, dtype, raw.tobytes())

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": [array]}, {}, {})
        restored = checkpoints.restore({"x": None})

    assert restored is not None
    (back,) = restored.values["x"]
    assert (type(back), back.dtype, back.shape) == (numpy.ndarray, dtype, shape)
    assert back.tobytes() == array.tobytes()


def test_views_and_scalars_come_back(tmp_path: Path) -> None:
    base = numpy.arange(24.0).reshape(4, 6)
    values = [base[::2, 1::2], base.T, numpy.float64(0.1), numpy.int32(7), numpy.bool_(True)]

    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": values}, {}, {})
        restored = checkpoints.restore({"x": None})

    assert restored is not None
    for one, back in zip(values, restored.values["x"], strict=True):
        assert type(one) is type(back)
        assert one.dtype == back.dtype
        assert (one == back).all()


def test_an_array_is_restored_in_place(tmp_path: Path) -> None:
    array = numpy.arange(5)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": array}, {}, {})
        array += 1
        restored = checkpoints.restore({"x": array})

    assert restored is not None
    assert restored.values["x"] is array
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_the_copy_is_taken_before_save_returns(tmp_path: Path) -> None:
    array = numpy.zeros(4 << 20)
    with keeping(tmp_path) as checkpoints:
        for step in range(1, 4):
            array[:] = step
            checkpoints.save(step, {"x": array}, {"mine": array[:9]}, {})
            array[:] = -1
        restored = [checkpoints.restore({}, step) for step in (1, 2, 3)]

    for step, one in enumerate(restored, 1):
        assert one is not None
        assert (one.values["x"] == step).all()
        assert (one.own["mine"] == step).all()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([object()], "is an array of object, which cannot be saved"),
        ("fields", "is an array of .*'a'.*, which cannot be saved"),
        ("masked", "is a numpy.*MaskedArray, which cannot be saved"),
    ],
)
def test_arrays_of_anything_but_numbers_are_refused(tmp_path: Path, value: Any, message: str) -> None:
    arrays = {"fields": numpy.zeros(2, [("a", "f4")]), "masked": numpy.ma.masked_array([1], [True])}
    array = arrays[value] if isinstance(value, str) else numpy.array(value, object)

    with keeping(tmp_path) as checkpoints, pytest.raises(Complaint, match=message):
        checkpoints.save(1, {"x": {"y": array}}, {}, {})


def test_an_array_of_another_shape_is_refused_and_left_alone(tmp_path: Path) -> None:
    here = numpy.zeros(3)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": numpy.ones(4)}, {}, {})

        with pytest.raises(Complaint, match="x is 4 in the checkpoint and 3 here"):
            checkpoints.restore({"x": here})

    assert not here.any()
