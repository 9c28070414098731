"""Trains with ParameterServerStrategy: the chief hands out steps, ps hold the weights, workers compute."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow reads it when it is imported

import tensorflow as tf

STEPS = 300


def main() -> None:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()  # reads TF_CONFIG
    if cluster.task_type in ("worker", "ps"):
        serve(cluster)
    else:
        coordinate(cluster)


def serve(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Does what the chief asks, and never ends by itself."""
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc"
    )
    print(f"{cluster.task_type} {cluster.task_id} serves", flush=True)
    server.join()


def coordinate(cluster: tf.distribute.cluster_resolver.ClusterResolver) -> None:
    """Spreads the training steps over the workers and prints the result."""
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight = tf.Variable(tf.zeros([2, 1]))
        done = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def worker_step(samples: tf.data.Iterator) -> tf.Tensor:
        def replica_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ weight - y) ** 2)
            weight.assign_sub(0.01 * tape.gradient(loss, weight))
            done.assign_add(1)
            return loss

        return strategy.run(replica_step, args=next(samples))

    samples = iter(coordinator.create_per_worker_dataset(dataset))
    for number in range(1, STEPS + 1):
        loss = coordinator.schedule(worker_step, args=(samples,))
        if number % 100 == 0:
            coordinator.join()
            print(f"step {int(done)} loss {float(loss.fetch()):.4f}", flush=True)

    found = weight.numpy().ravel()
    workers = cluster.cluster_spec().num_tasks("worker")
    print(f"{workers} workers found weights {found[0]:.2f} and {found[1]:.2f}", flush=True)
    if abs(found[0] - 3.0) > 0.1 or abs(found[1] + 1.0) > 0.1:
        raise SystemExit("the weights are wrong: they should be 3 and -1")


def dataset() -> tf.data.Dataset:
    """Returns endless batches of y = 3 a - b, made by the worker that reads them."""

    def batch(_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        x = tf.random.normal([32, 2])
        return x, x @ tf.constant([[3.0], [-1.0]])

    return tf.data.Dataset.range(1).repeat().map(batch)


if __name__ == "__main__":
    main()
