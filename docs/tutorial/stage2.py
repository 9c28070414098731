"""Stage 2: the same on several ranks, as torch itself does it; nothing of Bireme yet."""

import torch
import torch.distributed as dist  # new
from torch import nn
from torch.nn.parallel import DistributedDataParallel  # new
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset  # new

dist.init_process_group("gloo")  # new
torch.manual_seed(1)
points = torch.rand(2000, 2) * 2 - 1
inside = (points.norm(dim=1) < 0.7).long()
data = TensorDataset(points, inside)  # new
sampler = DistributedSampler(data)  # new
loader = DataLoader(data, batch_size=25, sampler=sampler)  # new
model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))  # new
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for epoch in range(5):  # new
    sampler.set_epoch(epoch)  # new
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

accuracy = (model.module(points).argmax(dim=1) == inside).float().mean().item()  # new
if dist.get_rank() == 0:  # new
    print(f"accuracy: {accuracy:.3f}")
dist.destroy_process_group()  # new
