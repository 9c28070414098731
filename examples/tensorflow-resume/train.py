"""Tells the inside of a circle from its outside with Keras; after a kill it continues where it was."""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported

import keras
import numpy as np
import tensorflow as tf

import bireme

BATCH = 40  # points of one worker in one step
EPOCHS = 15
PAUSE = 0.01  # seconds; in place of the work of a larger model, so that there is time to kill it


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG
    keras.utils.set_random_seed(1)
    with strategy.scope():
        layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((2,)), *layers])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)  # what is restored must be there, within this scope

    @tf.function
    def train(points: tf.Tensor, inside: tf.Tensor) -> tf.Tensor:
        return strategy.run(learn, args=(model, optimizer, points, inside))

    points, inside = samples()
    batches = [(points[i : i + BATCH], inside[i : i + BATCH]) for i in range(0, len(points), BATCH)]
    with bireme.init(every=20) as run:
        parts = tf.train.Checkpoint(model=model, optimizer=optimizer)
        start = run.restore(parts=parts)  # variables are filled in place
        for step, (x, y) in run.steps(batches, start=start, epochs=EPOCHS):
            loss = train(tf.constant(x), tf.constant(y))
            run.report(step, loss=loss)
            run.save(step, parts=parts)
            time.sleep(PAUSE)
        name = f"worker {run.rank} of {run.world_size}"

    accuracy = float(np.mean((model(points).numpy()[:, 0] > 0) == inside))
    total = sum(float(np.sum(part.numpy(), dtype=np.float64)) for part in model.weights)
    print(f"{name}: accuracy {accuracy:.3f}, weights add up to {total!r}", flush=True)
    if accuracy < 0.95:
        raise SystemExit("the circle was not found")


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Points of a square, and whether each is within the circle."""
    points = np.random.default_rng(1).uniform(-1, 1, size=(2000, 2)).astype(np.float32)
    return points, (np.linalg.norm(points, axis=1) < 0.7).astype(np.float32)


def learn(model: keras.Model, optimizer: keras.Optimizer, points: tf.Tensor, inside: tf.Tensor) -> tf.Tensor:
    """One step on one worker, which has its share of the mean; Keras adds up the gradients of all workers."""
    context = tf.distribute.get_replica_context()
    with tf.GradientTape() as tape:
        odds = model(points, training=True)[:, 0]
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=inside, logits=odds)
        loss = tf.reduce_mean(losses) / context.num_replicas_in_sync
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return context.all_reduce(tf.distribute.ReduceOp.SUM, loss)


if __name__ == "__main__":
    main()
