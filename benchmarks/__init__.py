"""Speed and memory, shown by running the rival beside us: several rounds, interleaved, medians and ratios."""
