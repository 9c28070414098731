"""Fits a linear model with JAX: each process holds a shard of the samples, psum adds the gradients."""

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FEATURES = 8
SAMPLES = 512  # on each process
STEPS = 100


def main() -> None:
    address, port = os.environ["COORDINATOR_ADDRESS"], os.environ["COORDINATOR_PORT"]
    processes, rank = int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    jax.distributed.initialize(f"{address}:{port}", processes, rank)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    split = NamedSharding(mesh, PartitionSpec("data"))
    truth = np.arange(1.0, FEATURES + 1.0, dtype=np.float32)
    random = np.random.default_rng(rank)  # each process draws its own samples
    x = random.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = x @ truth + random.normal(size=SAMPLES).astype(np.float32) * 0.1
    shards = [jax.make_array_from_process_local_data(split, part) for part in (x, y)]

    weights = jax.device_put(jnp.zeros(FEATURES), NamedSharding(mesh, PartitionSpec()))
    step = make_step(mesh)
    for number in range(1, STEPS + 1):
        weights, loss = step(weights, *shards)
        if number % 20 == 0 and rank == 0:
            print(f"step {number} loss {float(loss):.4f}", flush=True)

    error = float(jnp.abs(weights - truth).max())
    print(f"process {rank} of {processes}: largest error {error:.4f}", flush=True)
    if error > 0.1:
        raise SystemExit("the weights are wrong")
    jax.distributed.shutdown()


def make_step(mesh: Mesh) -> jax.stages.Wrapped:
    """Returns one step of gradient descent over the samples of all processes."""
    everywhere, data = PartitionSpec(), PartitionSpec("data")

    def mean_loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((x @ weights - y) ** 2)

    # check_vma=False: JAX would otherwise add up the gradients by itself, before our psum does.
    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(everywhere, data, data),
        out_specs=(everywhere, everywhere),
        check_vma=False,
    )
    def step(weights: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        loss, gradient = jax.value_and_grad(mean_loss)(weights, x, y)
        processes = jax.lax.psum(1, "data")
        total = jax.lax.psum(gradient, "data")
        return weights - 0.05 * total / processes, jax.lax.psum(loss, "data") / processes

    return step


if __name__ == "__main__":
    main()
