"""A NaN hunt: which call made the first NaN?

One run is enough: a dump that is compared with itself agrees, except for what is not finite. Calls that
return NaN or Inf that their inputs do not have are named. Run it: python examples/nan_hunt.py
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import ulpscope


class Entropy(nn.Module):
    """p log p, forgetting that p may be 0."""

    def forward(self, logits: Tensor) -> Tensor:
        p = torch.softmax(logits, -1)
        return -(p * torch.log(p)).sum(-1).mean()


def train(dump: Path) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    entropy = Entropy()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    inputs = torch.randn(4, 8)
    losses = []
    # Statistics show NaN as well, and take a fraction of the room of tensors.
    with ulpscope.capture(dump, model=[model, entropy], level="mix") as run:
        for step in range(4):
            # The loss grows sharp: at some step a probability is exactly 0.
            loss = entropy(model(inputs) * 10.0 ** (step + 1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            run.step()
    return losses


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder, "run")
        print("losses", train(dump))
        result = ulpscope.compare(dump, dump)
        first = result.first_divergence
        print(f"\n{result.explain()}")
    return 0 if first is not None and first.kind == "non-finite born here" else 1


if __name__ == "__main__":
    sys.exit(main())
