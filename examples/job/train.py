"""Trains a small network on one process, with nothing but the standard library."""

import math
import random

HIDDEN = 8
STEPS = 4000


def main() -> None:
    random.seed(3)
    network = Network()
    samples = [((a, b), a ^ b) for a in (0, 1) for b in (0, 1)]  # exclusive or: not solvable by a line
    for step in range(1, STEPS + 1):
        inputs, wanted = random.choice(samples)
        loss = network.learn(inputs, wanted)
        if step % 1000 == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)

    correct = sum(round(network.predict(inputs)[1]) == wanted for inputs, wanted in samples)
    print(f"accuracy: {correct / len(samples):.2f}", flush=True)
    if correct < len(samples):
        raise SystemExit("the network did not learn exclusive or")


class Network:
    """One hidden layer; each row of `hidden` ends with its bias, and so does `output`."""

    def __init__(self) -> None:
        self.hidden = [[random.gauss(0, 1) for _ in range(3)] for _ in range(HIDDEN)]
        self.output = [random.gauss(0, 1) for _ in range(HIDDEN + 1)]

    def predict(self, inputs: tuple[int, int]) -> tuple[list[float], float]:
        activities = [math.tanh(row[0] * inputs[0] + row[1] * inputs[1] + row[2]) for row in self.hidden]
        total = sum(w * a for w, a in zip(self.output, [*activities, 1.0], strict=True))
        return activities, 1 / (1 + math.exp(-total))

    def learn(self, inputs: tuple[int, int], wanted: int, rate: float = 0.3) -> float:
        activities, probability = self.predict(inputs)
        error = probability - wanted
        for row, weight, activity in zip(self.hidden, self.output[:-1], activities, strict=True):
            slope = error * weight * (1 - activity**2)
            for i, value in enumerate((*inputs, 1)):
                row[i] -= rate * slope * value
        for i, activity in enumerate([*activities, 1.0]):
            self.output[i] -= rate * error * activity
        return -math.log(probability if wanted else 1 - probability)


if __name__ == "__main__":
    main()
