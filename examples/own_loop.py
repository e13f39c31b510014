"""Your own training loop: record it twice, and find what a change did.

The second run stands for "after the upgrade": one layer norm has a different eps.
Run it: python examples/own_loop.py
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import nn

import ulpscope


def train(dump: Path, eps: float) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32, eps=eps), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    inputs, wanted = torch.randn(8, 16), torch.randn(8, 1)
    losses = []
    # Level mix records modules and the API calls in them; task tensor keeps the tensors themselves.
    with ulpscope.capture(dump, model=model, level="mix", task="tensor") as run:
        for _ in range(3):
            loss = nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            run.step()
    return losses


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        print("losses before", train(before, eps=1e-5))
        print("losses after ", train(after, eps=1e-3))
        # The target is suspected, the golden is trusted.
        result = ulpscope.compare(after, before)
        print(f"\n{result.explain()}")
        first = result.first_divergence
    return 0 if first is not None and "layer_norm" in first.call else 1


if __name__ == "__main__":
    sys.exit(main())
