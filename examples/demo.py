"""Trains a small transformer twice, the second time with a fault in one layer, and finds the line at fault.

The fault is one that happens: a fused kernel that normalises with the variance of the wrong dimension size.
The loss still falls, only not quite as it should.
"""

import os
import sys
import tempfile
from pathlib import Path

# See tests/python/conftest.py.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, TOKENS, VOCABULARY, FAULTY_LAYER = 32, 16, 64, 2


class Layer(nn.Module):
    def __init__(self, *, faulty: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.width = WIDTH - 1 if faulty else WIDTH

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(*(self.norm1(x),) * 3, need_weights=False)[0]
        hidden = F.gelu(self.up(self.norm2(x)))
        return x + torch.mul(self.down(hidden), (WIDTH / self.width) ** 0.5)


def train(dump: Path, *, faulty_layer: int | None) -> list[float]:
    """Three steps under capture; the losses."""
    torch.manual_seed(0)
    layers = [Layer(faulty=number == faulty_layer) for number in range(4)]
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *layers, nn.Linear(WIDTH, VOCABULARY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = torch.randint(0, VOCABULARY, (8, TOKENS + 1))
    losses = []
    with ulpscope.capture(dump, model=model, level="mix", task="tensor") as run:
        for _ in range(3):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            run.step()
    return losses


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        golden, target = Path(folder, "golden"), Path(folder, "target")
        print("golden losses", train(golden, faulty_layer=None))
        print("target losses", train(target, faulty_layer=FAULTY_LAYER))
        first = ulpscope.compare(target, golden).first_divergence
    if first is None:
        print("no divergence was found")
        return 1
    print(f"\nfirst divergence: {first.call}, in {first.module}, step {first.step}")
    print(f"  {first.kind}: {first.entry}, {first.why}")
    print(f"  {first.code}")
    print(f"planted in layer {FAULTY_LAYER} of Sequential, which is Module.{FAULTY_LAYER + 1}")
    return 0 if first.module and first.module.startswith(f"Module.{FAULTY_LAYER + 1}.") else 1


if __name__ == "__main__":
    sys.exit(main())
