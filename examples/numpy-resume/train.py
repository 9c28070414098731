"""Fits a plane with numpy alone; killed at any moment, it continues from its last checkpoint."""

import time

import numpy as np

import bireme

TRUTH = np.array([3.0, -1.0, 2.0])
PAUSE = 0.01  # seconds; in place of the work of a larger model, so that there is time to kill it


def main() -> None:
    random = np.random.default_rng(1)
    x = random.uniform(-1.0, 1.0, size=(100, 20, 3))  # 100 batches of 20 samples
    y = x @ TRUTH + random.normal(scale=0.1, size=(100, 20))
    weights, velocity = np.zeros(3), np.zeros(3)
    with bireme.init(every=50) as run:
        start = run.restore(weights=weights, velocity=velocity)  # arrays are filled in place
        for step, (inputs, wanted) in run.steps(list(zip(x, y, strict=True)), start=start, epochs=5):
            error = inputs @ weights - wanted
            velocity[:] = 0.9 * velocity + inputs.T @ error / len(wanted)
            weights -= 0.05 * velocity
            run.report(step, loss=np.mean(error**2))
            run.save(step, weights=weights, velocity=velocity)
            time.sleep(PAUSE)

    print(f"weights after 500 steps: {weights.tolist()}", flush=True)
    if np.abs(weights - TRUTH).max() > 0.1:
        raise SystemExit("the weights are wrong")


if __name__ == "__main__":
    main()
