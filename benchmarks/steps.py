"""A training that only counts: each step is one all-reduce, and each step's time is written down."""

import os
import sys
import time

import torch
import torch.distributed as dist

STEPS = int(sys.argv[1])
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
with open(f"{os.environ['MARKS']}.{rank}", "a", buffering=1) as file:
    file.write(f"pid {os.getpid()} {attempt}\n")
    for _ in range(STEPS):
        model(torch.ones(8, 64)).sum().backward()
        file.write(f"step {time.time()} {attempt}\n")
        time.sleep(0.01)
dist.destroy_process_group()
