"""Stage 1: a training script, as anybody writes it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
points = torch.rand(2000, 2) * 2 - 1
inside = (points.norm(dim=1) < 0.7).long()
loader = DataLoader(TensorDataset(points, inside), batch_size=50, shuffle=True)
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

for _ in range(5):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

accuracy = (model(points).argmax(dim=1) == inside).float().mean().item()
print(f"accuracy: {accuracy:.3f}")
