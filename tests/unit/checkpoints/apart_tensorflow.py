"""Are TensorFlow's and Keras's objects saved and restored bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bireme.runtime.script.complaints import Complaint
from tests.unit.checkpoints.building import keeping

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]


@pytest.fixture(scope="module")
def tf() -> Any:
    # Its import takes long, so it waits until a test wants it.
    return pytest.importorskip("tensorflow")


def network(tf: Any, width: int = 3) -> Any:
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [tf.keras.Input((2,)), layers.Dense(width), layers.BatchNormalization(), layers.Dense(1)]
    )


def trained(tf: Any, model: Any, optimizer: Any, steps: int) -> list[float]:
    losses = []
    for step in range(steps):
        batch = tf.random.stateless_normal((8, 2), (step, 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(batch, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        losses.append(float(loss))
    return losses


def test_a_keras_model_and_its_optimizer_go_on_bit_for_bit(tmp_path: Path, tf: Any) -> None:
    model, optimizer = network(tf), tf.keras.optimizers.Adam(0.1)
    trained(tf, model, optimizer, 3)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(3, {"model": model, "optimizer": optimizer}, {}, {})
        losses = trained(tf, model, optimizer, 3)

        model, optimizer = network(tf), tf.keras.optimizers.Adam(0.5)
        restored = checkpoints.restore({"model": model, "optimizer": optimizer})

    assert restored is not None
    assert restored.values["model"] is model
    assert trained(tf, model, optimizer, 3) == losses


def test_a_tf_checkpoint_comes_back_with_all_that_is_in_it(tmp_path: Path, tf: Any) -> None:
    def whole() -> Any:
        generator = tf.random.Generator.from_seed(1)
        model, optimizer = network(tf), tf.keras.optimizers.SGD(0.1, momentum=0.9)
        return tf.train.Checkpoint(model=model, optimizer=optimizer, step=tf.Variable(0), generator=generator)

    one = whole()
    trained(tf, one.model, one.optimizer, 2)
    one.step.assign(7)
    one.generator.normal((3,))
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(2, {"all": one}, {}, {})
        expected = one.generator.normal((3,)).numpy().tolist(), trained(tf, one.model, one.optimizer, 2)

        other = whole()
        checkpoints.restore({"all": other})

    assert int(other.step) == 7
    assert (
        other.generator.normal((3,)).numpy().tolist(),
        trained(tf, other.model, other.optimizer, 2),
    ) == expected


def test_a_compiled_model_is_saved_with_its_optimizer(tmp_path: Path, tf: Any) -> None:
    model, other = network(tf), network(tf)
    for one in (model, other):
        one.compile("adam", "mse")
    model.fit(tf.ones((8, 2)), tf.ones((8, 1)), verbose=0)
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": model}, {}, {})
        checkpoints.restore({"model": other})

    for one, same in zip(model.optimizer.variables, other.optimizer.variables, strict=True):
        assert (one.numpy() == same.numpy()).all()


def test_modules_variables_and_tensors_come_back(tmp_path: Path, tf: Any) -> None:
    module, variable = tf.Module(), tf.Variable([1.0, 2.0])
    module.inner = {"w": [tf.Variable(tf.ones((2, 2), "bfloat16"))]}
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"module": module, "v": variable, "tree": {"t": tf.constant([3])}}, {}, {})
        module.inner["w"][0].assign(tf.zeros((2, 2), "bfloat16"))
        variable.assign([0.0, 0.0])
        restored = checkpoints.restore({"module": module, "v": variable, "tree": None})

    assert restored is not None
    assert variable.numpy().tolist() == [1, 2]
    assert module.inner["w"][0].numpy().astype(float).tolist() == [[1, 1], [1, 1]]
    assert restored.values["tree"]["t"].numpy().tolist() == [3]


def test_another_model_is_refused_and_left_alone(tmp_path: Path, tf: Any) -> None:
    other = network(tf, 4)
    before = [one.numpy().tolist() for one in other.variables]
    with keeping(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": network(tf, 3)}, {}, {})

        with pytest.raises(
            Complaint, match="model is not what was saved: 0-kernel is 2x3 in the checkpoint and 2x4 here"
        ):
            checkpoints.restore({"model": other})
        unbuilt = tf.keras.Sequential([tf.keras.layers.Dense(3)])
        with pytest.raises(Complaint, match=r"0-kernel is in the checkpoint and not here.* model.build"):
            checkpoints.restore({"model": unbuilt})

    assert [one.numpy().tolist() for one in other.variables] == before
