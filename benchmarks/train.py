"""A small training whose throughput can be compared: steps a second of a fixed network."""

import os
import sys
import time

import torch
import torch.distributed as dist

STEPS = int(sys.argv[1])
dist.init_process_group("gloo")
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
model = torch.nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batch = torch.randn(256, 256)
for step in range(STEPS + 20):
    if step == 20:  # The first steps allocate.
        dist.barrier()
        began = time.perf_counter()
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}", flush=True)
# No collective here: torch may hang at its exit when one follows the last step of DDP.
if dist.get_rank() == 0:
    with open(os.environ["MARKS"], "w") as file:
        file.write(f"{STEPS / (time.perf_counter() - began)}")
dist.destroy_process_group()
