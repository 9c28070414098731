"""Trains a small network to read handwritten digits, data-parallel over all ranks."""

import argparse
import gzip
import struct
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    options = parse_options()
    dist.init_process_group("gloo")  # reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
    train(options)
    dist.destroy_process_group()


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)  # the network is too small to gain from more
    rank, world = dist.get_rank(), dist.get_world_size()
    digits, held_out = load(options.data, "train"), load(options.data, "t10k")
    sampler = DistributedSampler(digits, seed=options.seed)
    batches = DataLoader(digits, batch_size=options.batch // world, sampler=sampler)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)

    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in batches:
            loss = cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()  # averages the gradients of all ranks
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1}/{options.epochs} loss {loss.item():.4f}", flush=True)

    # All ranks hold the same weights, so rank 0 can judge alone. A collective this near to the end could
    # also abort the process: gloo's threads may still hold its tensor when the interpreter shuts down.
    if rank == 0:
        score = accuracy(model.module, held_out)
        print(f"accuracy: {score:.3f} on {len(held_out)} held-out digits, {world} ranks", flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    data = Path(__file__).resolve().parent / "data"
    parser.add_argument("--data", type=Path, default=data, help="folder of MNIST idx files, gzipped or not")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64, help="samples per step over all ranks")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def network() -> nn.Module:
    """Returns a network for images of any size from 4x4 up."""
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(4),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def load(folder: Path, part: str) -> TensorDataset:
    images = read_idx(folder / f"{part}-images-idx3-ubyte")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte")
    return TensorDataset(images.unsqueeze(1).float() / 255, labels.long())


def read_idx(path: Path) -> Tensor:
    """Reads one file of the MNIST format: two zero bytes, the type, the dimensions, the values."""
    data = (
        path.read_bytes()
        if path.exists()
        else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())
    )
    dimensions = data[3]
    shape = struct.unpack_from(f">{dimensions}I", data, offset=4)
    return torch.frombuffer(bytearray(data[4 + 4 * dimensions :]), dtype=torch.uint8).reshape(shape)


@torch.no_grad()
def accuracy(model: nn.Module, digits: TensorDataset) -> float:
    images, labels = digits.tensors
    return (model(images).argmax(dim=1) == labels).float().mean().item()


if __name__ == "__main__":
    main()
