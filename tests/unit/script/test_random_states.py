"""Do random numbers go on as if nothing had happened?"""

from __future__ import annotations

import random

import numpy
import torch

from bireme.runtime.script import restored_state


def draw() -> tuple[object, ...]:
    return (
        random.random(),
        random.gauss(0, 1),
        numpy.random.rand(3).tolist(),
        numpy.random.standard_normal(),
        torch.rand(3).tolist(),
        torch.randn(1).item(),
    )


def test_every_generator_goes_on_where_it_was() -> None:
    draw()
    state = restored_state.capture_random()
    expected = draw()
    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)

    restored_state.restore_random(state)

    assert draw() == expected


def test_what_was_not_captured_is_left_alone() -> None:
    state = restored_state.capture_random()
    numpy.random.seed(5)
    expected = numpy.random.rand()
    numpy.random.seed(5)

    restored_state.restore_random({"python": state["python"]})

    assert numpy.random.rand() == expected
