"""Tells the inside of a circle from its outside with JAX; killed at any moment, it continues where it was."""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import bireme

BATCH = 40  # points of one process in one step
EPOCHS = 15
PAUSE = 0.01  # seconds; in place of the work of a larger model, so that there is time to kill it

State = dict[str, dict[str, jax.Array]]


def main() -> None:
    address, port = os.environ["COORDINATOR_ADDRESS"], os.environ["COORDINATOR_PORT"]
    processes, process = int(os.environ["NUM_PROCESSES"]), int(os.environ["PROCESS_ID"])
    jax.distributed.initialize(f"{address}:{port}", processes, process)

    mesh = Mesh(np.array(jax.devices()), ("data",))
    everywhere, split = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in ((), ("data",)))
    points, inside = samples()
    batches = [(points[i : i + BATCH], inside[i : i + BATCH]) for i in range(0, len(points), BATCH)]
    train = jax.jit(learn, out_shardings=everywhere)

    with bireme.init(every=20) as run:
        state = jax.device_put(beginning(), everywhere)
        start = run.restore(state=state)
        state = start.values.get("state", state)  # a pytree is not changed in place
        for step, batch in run.steps(batches, start=start, epochs=EPOCHS):
            x, y = (jax.make_array_from_process_local_data(split, part) for part in batch)
            state, loss = train(state, x, y)
            run.report(step, loss=loss)
            run.save(step, state=state)
            time.sleep(PAUSE)

    weights = jax.device_get(state["weights"])
    accuracy = float(np.mean((predict(weights, points) > 0) == inside))
    total = sum(float(np.sum(part, dtype=np.float64)) for part in weights.values())
    print(
        f"process {process} of {processes}: accuracy {accuracy:.3f}, weights add up to {total!r}", flush=True
    )
    if accuracy < 0.95:
        raise SystemExit("the circle was not found")
    jax.distributed.shutdown()


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Points of a square, and whether each is within the circle."""
    points = np.random.default_rng(1).uniform(-1, 1, size=(2000, 2)).astype(np.float32)
    return points, (np.linalg.norm(points, axis=1) < 0.7).astype(np.float32)


def beginning() -> State:
    """A network of one hidden layer, and the momentum of each weight."""
    hidden, out = jax.random.split(jax.random.key(1))
    weights = {
        "hidden": jax.random.normal(hidden, (2, 32)),
        "bias": jnp.zeros(32),
        "out": jax.random.normal(out, (32,)) * 0.2,
    }
    return {"weights": weights, "momentum": jax.tree.map(jnp.zeros_like, weights)}


def predict(weights: dict[str, jax.Array], points: jax.Array) -> jax.Array:
    return jnp.maximum(points @ weights["hidden"] + weights["bias"], 0) @ weights["out"]


def learn(state: State, points: jax.Array, inside: jax.Array) -> tuple[State, jax.Array]:
    """One step over the points of all processes; JAX adds up what each of them found."""

    def mean_loss(weights: dict[str, jax.Array]) -> jax.Array:
        odds = predict(weights, points)
        return jnp.mean(jnp.logaddexp(0, odds) - inside * odds)

    loss, gradient = jax.value_and_grad(mean_loss)(state["weights"])
    momentum = jax.tree.map(lambda old, new: 0.9 * old + new, state["momentum"], gradient)
    weights = jax.tree.map(lambda old, change: old - 0.1 * change, state["weights"], momentum)
    return {"weights": weights, "momentum": momentum}, loss


if __name__ == "__main__":
    main()
