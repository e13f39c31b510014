"""Trains a small transformer twice, the second time with a fault in one layer, and finds the line at fault.

The layers use a kernel of their own, and one has a wrong build of it, with a constant 1 % off.
The dumps go to the folder that is given as an argument; without one they are deleted in the end.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, VOCABULARY, LAYERS, FAULTY_LAYER = 32, 64, 4, 2


def kernel(constant: float) -> type[torch.autograd.Function]:
    """Stands for a hand-written GELU with a constant compiled in."""

    class FusedGelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * torch.sigmoid(constant * x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad * torch.sigmoid(constant * x) * (1 + constant * x * torch.sigmoid(-constant * x))

    return FusedGelu


class Layer(nn.Module):
    def __init__(self, gelu: type[torch.autograd.Function]) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.gelu = gelu

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(*(self.norm1(x),) * 3, need_weights=False)[0]
        return x + self.down(self.gelu.apply(self.up(self.norm2(x))))


def train(dump: Path, kernels: list[type[torch.autograd.Function]]) -> list[str]:
    torch.manual_seed(0)
    layers = nn.Sequential(*(Layer(gelu) for gelu in kernels))
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), layers, nn.Linear(WIDTH, VOCABULARY))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    tokens, losses = torch.randint(0, VOCABULARY, (8, 17)), []
    with ulpscope.capture(dump, model=model, level="mix", task="tensor") as run:
        for _ in range(3):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(f"{loss.item():.6f}")
            run.step()
    return losses


def write_page(result: ulpscope.Comparison, folder: Path) -> str:
    page = folder / ("report.html" if len(sys.argv) > 1 else "ulpscope-demo.html")
    try:
        result.to_html(page)
    except OSError as error:  # A build without the page says how to get it.
        return f"no page: {error}"
    return f"the whole result as a page, to open in a browser: {page}"


def main() -> int:
    right, wrong = kernel(1.702), kernel(1.719)
    builds = [wrong if number == FAULTY_LAYER else right for number in range(LAYERS)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = sys.argv[1] if len(sys.argv) > 1 else temporary
        print("golden losses", *train(Path(folder, "golden"), [right] * LAYERS))
        print("target losses", *train(Path(folder, "target"), builds))
        result = ulpscope.compare(Path(folder, "target"), Path(folder, "golden"))
        first = result.first_divergence
        page = write_page(result, Path(folder if len(sys.argv) > 1 else tempfile.gettempdir()))
    assert first is not None, "no divergence was found"
    print(f"planted in the kernel of layer {FAULTY_LAYER}; found:\n\n{result.explain()}")
    if len(sys.argv) == 1:
        print("these dumps are deleted now; to go on with them, name a folder: examples/demo.py FOLDER")
    print(page)
    return 0 if f"Module.1.{FAULTY_LAYER}." in str(first.module) and "gelu" in str(first.code) else 1


if __name__ == "__main__":
    sys.exit(main())
