"""Are JAX's arrays and pytrees saved and restored bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import keeping

jax: Any = pytest.importorskip("jax")
pytestmark = pytest.mark.frameworks


class State(NamedTuple):
    """What optax keeps, for one."""

    count: Any
    momentum: Any


def tree(scale: float) -> dict[str, Any]:
    weights = [{"w": scale * jax.numpy.arange(6.0).reshape(2, 3), "b": jax.numpy.ones(3, "bfloat16") * scale}]
    momentum = jax.tree_util.tree_map(lambda leaf: leaf * 2, weights)
    return {
        "params": weights,
        "optimizer": (State(jax.numpy.int32(scale), momentum), None),
        "key": jax.random.key(int(scale)),
        "epoch": int(scale),
    }


def same(one: Any, other: Any) -> bool:
    leaves, others = (jax.tree_util.tree_flatten(each) for each in (one, other))
    assert leaves[1] == others[1]
    for a, b in zip(leaves[0], others[0], strict=True):
        assert type(a) is type(b)
        if isinstance(a, jax.Array):
            assert (a.dtype, a.shape, a.sharding) == (b.dtype, b.shape, b.sharding)
    return all(
        bool((a == b).all()) if isinstance(a, jax.Array) else a == b
        for a, b in zip(*(leaves[0], others[0]), strict=True)
    )


def test_a_pytree_comes_back_onto_one_of_the_same_build(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"state": tree(3)}, {}, {})
        restored = checkpoints.restore({"state": tree(1)})

    assert restored is not None
    assert same(restored.values["state"], tree(3))


def test_a_description_is_enough_to_restore_onto(tmp_path: Path) -> None:
    params = tree(3)["params"]
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"params": params}, {}, {})
        restored = checkpoints.restore({"params": jax.eval_shape(lambda: params)})

    assert restored is not None
    assert same(restored.values["params"], params)


def test_a_plain_tree_that_jax_cannot_sort_is_still_a_plain_tree(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"x": {"a": jax.numpy.ones(2), 3: None}}, {}, {})
        restored = checkpoints.restore({"x": None})

    assert restored is not None
    assert list(restored.values["x"]) == ["a", 3]


def test_an_array_alone_is_a_pytree_too(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(
            1, {"w": jax.numpy.arange(3)}, {"key": jax.random.key(7), "w": [jax.numpy.ones(2)]}, {}
        )
        restored = checkpoints.restore({"w": jax.numpy.zeros(3, int)})

    assert restored is not None
    assert restored.values["w"].tolist() == [0, 1, 2]
    assert (jax.random.key_data(restored.own["key"]) == jax.random.key_data(jax.random.key(7))).all()
    assert restored.own["w"][0].tolist() == [1, 1]


def test_without_a_tree_the_leaves_come_by_their_paths(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"state": tree(3)}, {}, {})
        restored = checkpoints.restore({})

    assert restored is not None
    assert list(restored.values["state"])[:2] == ["['epoch']", "['key']"]


def test_a_donated_array_was_copied_in_time(tmp_path: Path) -> None:
    step = jax.jit(lambda w: w + 1, donate_argnums=0)
    weights = jax.numpy.zeros(1 << 20)
    with keeping(tmp_path) as checkpoints:
        for number in range(3):
            checkpoints.save(number, {"w": weights}, {}, {})
            weights = step(weights)
        restored = [checkpoints.restore({"w": weights}, number) for number in range(3)]

    assert [one and set(one.values["w"].tolist()) for one in restored] == [{0.0}, {1.0}, {2.0}]


def test_a_tree_of_another_build_is_refused_with_the_leaves_that_differ(tmp_path: Path) -> None:
    other = tree(1)
    other["params"][0]["w"] = jax.numpy.zeros((4, 3))
    other["more"] = 1
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"state": tree(3)}, {}, {})

        with pytest.raises(Complaint) as raised:
            checkpoints.restore({"state": other})

    assert "['params'][0]['w'] is 2x3 in the checkpoint and 4x3 here" in str(raised.value)
    assert "['more'] is not in the checkpoint" in str(raised.value)


def test_a_precision_that_jax_would_cut_is_refused(tmp_path: Path) -> None:
    with keeping(tmp_path) as checkpoints:
        with jax.enable_x64(True):
            checkpoints.save(1, {"w": jax.numpy.ones(2, "float64")}, {}, {})

        with pytest.raises(Complaint, match="array of float64 was saved, and JAX makes float32 of it"):
            checkpoints.restore({"w": jax.numpy.ones(2)})
