"""Reads handwritten digits with PyTorch Lightning: a script as people write it for torchrun."""

import gzip
import os
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(__file__).resolve().parent.parent / "pytorch-digits" / "data"


class Digits(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        images, labels = batch
        return cross_entropy(self.network(images), labels)

    def test_step(self, batch: tuple[Tensor, Tensor]) -> None:
        images, labels = batch
        correct = (self.network(images).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", correct, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.003)


def digits(part: str) -> TensorDataset:
    """Reads one half of the MNIST-format data set that the PyTorch example ships."""
    images = gzip.decompress((DATA / f"{part}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((DATA / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    pixels = torch.from_numpy(np.frombuffer(images, np.uint8, offset=16).copy()).reshape(-1, 8, 8)
    return TensorDataset(
        pixels.float() / 255, torch.from_numpy(np.frombuffer(labels, np.uint8, offset=8).copy()).long()
    )


def main() -> None:
    L.seed_everything(1)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        strategy="ddp",
        max_epochs=15,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Digits()
    trainer.fit(model, DataLoader(digits("train"), batch_size=32, shuffle=True))
    [result] = trainer.test(model, DataLoader(digits("t10k"), batch_size=60), verbose=False)
    if trainer.is_global_zero:
        print(f"accuracy: {result['accuracy']:.3f} with {trainer.world_size} ranks", flush=True)


if __name__ == "__main__":
    main()
