"""Learns with PyTorch DDP which points lie in a circle; after a kill it continues at the exact sample."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import bireme

EPOCHS = 8
PAUSE = 0.01  # seconds; in place of the work of a larger model, so that there is time to kill it


def main() -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)  # the network is too small to gain from more
    with bireme.init(every=20) as run:
        torch.manual_seed(1)
        points = torch.rand(2000, 2) * 2 - 1
        inside = (points.norm(dim=1) < 0.7).long()
        loader = DataLoader(TensorDataset(points, inside), batch_size=25, shuffle=True)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        start = run.restore(model=model, optimizer=optimizer)
        for step, (x, y) in run.steps(loader, start=start, epochs=EPOCHS):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimizer.step()
            run.report(step, loss=loss)
            run.save(step, model=model, optimizer=optimizer)
            if run.rank == 0 and step % 40 == 39:
                print(f"epoch {run.epoch + 1}/{EPOCHS} loss {loss.item():.4f}", flush=True)
            time.sleep(PAUSE)

        accuracy = (model.module(points).argmax(dim=1) == inside).float().mean().item()
        if run.rank == 0:
            total = sum(weight.sum().item() for weight in model.parameters())
            print(f"accuracy {accuracy:.4f}, sum of all weights {total!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
