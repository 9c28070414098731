"""Values of numpy, torch, JAX and TensorFlow are recorded as what they are."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from bireme.runtime.records.record_format import Histogram, Image
from tests.unit.records.recorder_fixtures import Bench

pytestmark = pytest.mark.frameworks


def test_numbers_of_numpy(bench: Bench) -> None:
    np: Any = pytest.importorskip("numpy")
    recorder = bench.recorder()

    for value in (np.float32(0.5), np.float64(0.5), np.float16(0.5), np.array(0.5), np.array([[0.5]])):
        recorder.scalars(np.int64(7), {"x": value, "n": np.int32(3), "b": np.bool_(True)})

    assert bench.scalars() == [(7, {"x": 0.5, "n": 3.0, "b": 1.0})] * 5
    assert bench.told == []


def test_an_array_of_several_numbers_is_told(bench: Bench) -> None:
    np: Any = pytest.importorskip("numpy")

    bench.recorder().scalars(1, {"x": np.zeros((2, 3))})

    (sentence,) = bench.told
    assert sentence == "x is not recorded: it has the shape [2, 3]; report its mean, or use a histogram"


def test_numbers_of_torch(bench: Bench) -> None:
    torch: Any = pytest.importorskip("torch")
    recorder = bench.recorder()
    weight = torch.tensor(0.5, requires_grad=True)

    for value in (weight, weight * 1, torch.tensor([0.5]), torch.tensor(0.5, dtype=torch.bfloat16)):
        recorder.scalars(torch.tensor(7), {"x": value, "n": torch.tensor(3)})
    recorder.scalars(8, {"x": torch.empty(1, device="meta")})

    assert bench.scalars() == [(7, {"x": 0.5, "n": 3.0})] * 4
    (sentence,) = bench.told
    assert sentence.startswith("x is not recorded: ")


def test_numbers_of_jax_are_recorded_when_they_are_computed(bench: Bench) -> None:
    jax: Any = pytest.importorskip("jax")
    recorder = bench.recorder()
    work = jax.jit(lambda x: jax.lax.fori_loop(0, 300, lambda _, y: (y @ y) / 100, x).sum() * 0 + 0.5)
    matrix = jax.numpy.ones((100, 100))

    for step in range(5):
        recorder.scalars(step, {"x": work(matrix), "plain": 1.0})
    recorder.close()

    assert sorted((step, values["x"]) for step, values in bench.scalars() if "x" in values) == [
        (step, 0.5) for step in range(5)
    ]
    assert [step for step, values in bench.scalars() if "plain" in values] == list(range(5))
    assert bench.told == []


def test_a_value_that_is_only_traced_is_told(bench: Bench) -> None:
    jax: Any = pytest.importorskip("jax")
    recorder = bench.recorder()

    def step(x: Any) -> Any:
        recorder.scalars(1, {"x": x.sum()})
        return x

    jax.jit(step)(jax.numpy.ones(3))

    (sentence,) = bench.told
    assert sentence.startswith("x is not recorded: ")


def test_numbers_of_tensorflow(bench: Bench) -> None:
    tf: Any = pytest.importorskip("tensorflow")

    bench.recorder().scalars(1, {"x": tf.constant(0.5), "v": tf.Variable(0.25), "n": tf.constant([3])})

    assert bench.scalars() == [(1, {"x": 0.5, "v": 0.25, "n": 3.0})]


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy", "list"])
def test_histograms_of_all_libraries_are_the_same(bench: Bench, library: str) -> None:
    values = [[float(i % 17), float("inf")] for i in range(100)]
    made = values if library == "list" else _array(library, values)

    recorder = bench.recorder()
    recorder.histogram(1, "weights", made)
    recorder.close()

    (found,) = bench.records()
    assert isinstance(found, Histogram)
    assert (found.edges[0], found.edges[-1], len(found.counts)) == (0.0, 16.0, 64)
    assert [count for count in found.counts if count] == [6] * 15 + [5] * 2


@pytest.mark.parametrize("library", ["numpy", "torch", "list"])
@pytest.mark.parametrize("first", [False, True])
def test_images_of_all_libraries_are_the_same(bench: Bench, library: str, first: bool) -> None:
    pixels: Any = [[[0, 128, 255], [1, 2, 3]]] * 5
    if first:
        pixels = [[[pixels[y][x][c] for x in range(2)] for y in range(5)] for c in range(3)]
    whole = pixels if library == "list" else _array(library, pixels)
    parts = [[[value / 255 for value in line] for line in plane] for plane in pixels]
    fractions = parts if library == "list" else _array(library, parts)

    recorder = bench.recorder()
    recorder.image(1, "whole", whole)
    recorder.image(1, "fractions", fractions)

    for found in bench.records():
        assert isinstance(found, Image)
        assert (found.width, found.height) == (2, 5)
        assert _unpacked(found.png) == bytes([0, 0, 128, 255, 1, 2, 3] * 5)


def _array(library: str, values: object) -> Any:  # Any: of a library that need not be installed
    module: Any = pytest.importorskip(library)
    return module.tensor(values) if library == "torch" else module.array(values)


def _unpacked(png: bytes) -> bytes:
    at = png.index(b"IDAT")
    (length,) = struct.unpack_from(">I", png, at - 4)
    return zlib.decompress(png[at + 4 : at + 4 + length])
