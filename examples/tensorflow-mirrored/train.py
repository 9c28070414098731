"""Fits a line with MultiWorkerMirroredStrategy: every worker holds a copy, gradients are summed."""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported

import tensorflow as tf

STEPS = 150
BATCH = 64  # samples per step on each worker


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    with strategy.scope():
        weight = tf.Variable(0.0)
        bias = tf.Variable(0.0)

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((weight * x + bias - y) ** 2)
            gradients = tape.gradient(loss, [weight, bias])
            context = tf.distribute.get_replica_context()
            means = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
            weight.assign_sub(0.1 * means[0])
            bias.assign_sub(0.1 * means[1])
            return context.all_reduce(tf.distribute.ReduceOp.MEAN, loss)

        return strategy.run(replica_step, args=(x, y))

    random = tf.random.Generator.from_seed(task["index"])  # each worker draws its own samples
    for number in range(1, STEPS + 1):
        x = random.uniform([BATCH], minval=-1.0, maxval=1.0)
        loss = step(x, 3.0 * x + 2.0 + random.normal([BATCH], stddev=0.1))
        if number % 50 == 0 and task["index"] == 0:
            print(f"step {number} loss {float(loss):.4f}", flush=True)

    slope, offset = weight.numpy(), bias.numpy()
    print(f"{strategy.num_replicas_in_sync} workers found y = {slope:.2f} x + {offset:.2f}", flush=True)
    if abs(slope - 3.0) > 0.1 or abs(offset - 2.0) > 0.1:
        raise SystemExit("the line is wrong: it should be y = 3 x + 2")


if __name__ == "__main__":
    main()
