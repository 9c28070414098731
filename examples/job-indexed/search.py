"""Tries one learning rate of a list: the index of the Indexed Job says which."""

import os

RATES = (0.01, 0.1, 0.4)
STEPS = 40


def main() -> None:
    index = int(os.environ["JOB_COMPLETION_INDEX"])
    rate = RATES[index]
    weight = 0.0
    for _ in range(STEPS):
        weight -= rate * 2 * (weight - 3.0)  # gradient descent on (weight - 3)²
    print(f"index {index}: rate {rate} ends {abs(weight - 3.0):.6f} away from the minimum", flush=True)


if __name__ == "__main__":
    main()
