"""Stage 5: shards, shuffling, epochs and the exact sample to continue with, in one line."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset  # new

import bireme

dist.init_process_group("gloo")
with bireme.init(every=20) as run:  # new
    torch.manual_seed(1)
    points = torch.rand(2000, 2) * 2 - 1
    inside = (points.norm(dim=1) < 0.7).long()
    loader = DataLoader(TensorDataset(points, inside), batch_size=25, shuffle=True)  # new
    model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    start = run.restore(model=model, optimizer=optimizer)
    for step, (x, y) in run.steps(loader, start=start, epochs=5):  # new
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.report(step, loss=loss)
        run.save(step, model=model, optimizer=optimizer)

    accuracy = (model.module(points).argmax(dim=1) == inside).float().mean().item()
    if run.rank == 0:  # new
        print(f"accuracy: {accuracy:.3f}")
dist.destroy_process_group()
