"""A port: the same training step on another device, where one kernel is wrong.

The port has its own softmax, which sums in bfloat16. Run it: python examples/port.py, or with a GPU:
python examples/port.py cuda
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import ulpscope


def softmax_of_the_port(scores: Tensor) -> Tensor:
    raised = torch.exp(scores - scores.amax(-1, keepdim=True))
    return raised / raised.bfloat16().sum(-1, keepdim=True).float()


class Attention(nn.Module):
    def __init__(self, is_port: bool) -> None:
        super().__init__()
        self.queries, self.keys, self.values = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.is_port = is_port

    def forward(self, x: Tensor) -> Tensor:
        scores = self.queries(x) @ self.keys(x).transpose(-1, -2) / 32**0.5
        weights = softmax_of_the_port(scores) if self.is_port else torch.softmax(scores, -1)
        return weights @ self.values(x)


def step(dump: Path, device: str, is_port: bool) -> None:
    # The same weights and data on both sides: made on the CPU, then moved.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), Attention(is_port), nn.Linear(32, 4)).to(device)
    inputs, wanted = torch.randn(4, 12, 16).to(device), torch.randn(4, 12, 4).to(device)
    with ulpscope.capture(dump, model=model, level="mix", task="tensor"):
        nn.functional.mse_loss(model(inputs), wanted).backward()


def main() -> int:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        golden, target = Path(folder, "golden"), Path(folder, "target")
        step(golden, "cpu", is_port=False)
        step(target, device, is_port=True)
        result = ulpscope.compare(target, golden)
        print(result.explain())
        first = result.first_divergence
    return 0 if first is not None and first.module is not None and "Attention" in first.module else 1


if __name__ == "__main__":
    sys.exit(main())
