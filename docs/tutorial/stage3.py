"""Stage 3: the loss can be seen while it falls."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import bireme  # new

dist.init_process_group("gloo")
run = bireme.init()  # new
torch.manual_seed(1)
points = torch.rand(2000, 2) * 2 - 1
inside = (points.norm(dim=1) < 0.7).long()
data = TensorDataset(points, inside)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=25, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

step = 0  # new
for epoch in range(5):
    sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report(step, loss=loss)  # new
        step += 1  # new

accuracy = (model.module(points).argmax(dim=1) == inside).float().mean().item()
if dist.get_rank() == 0:
    print(f"accuracy: {accuracy:.3f}")
run.close()  # new
dist.destroy_process_group()
