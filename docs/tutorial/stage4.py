"""Stage 4: a run that is killed continues from its last checkpoint."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import bireme

dist.init_process_group("gloo")
run = bireme.init(every=20)  # new
torch.manual_seed(1)
points = torch.rand(2000, 2) * 2 - 1
inside = (points.norm(dim=1) < 0.7).long()
data = TensorDataset(points, inside)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=25, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

start = run.restore(model=model, optimizer=optimizer)  # new
step = 0
for epoch in range(5):
    sampler.set_epoch(epoch)
    for x, y in loader:
        if step >= start:  # new
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(step, loss=loss)
            run.save(step, model=model, optimizer=optimizer)  # new
        step += 1

accuracy = (model.module(points).argmax(dim=1) == inside).float().mean().item()
if dist.get_rank() == 0:
    print(f"accuracy: {accuracy:.3f}")
run.close()
dist.destroy_process_group()
