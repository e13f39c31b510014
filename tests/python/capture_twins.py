"""Two small scripts, dumped by Ulpscope or by mindstudio-probe: the same file, the same lines.

    python capture_twins.py ulpscope FOLDER        python capture_twins.py mindstudio FOLDER

Every dump is made in a forked process, because mindstudio-probe changes torch for good. Both tools write
FOLDER/{script}_{task}_{level}/step{N}/...
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

DUMPS = [
    *((script, "statistics", level) for script in ("gpt", "edges") for level in ("L0", "L1", "mix")),
    ("gpt", "tensor", "mix"),
    ("edges", "tensor", "L1"),
]

# `step()` once, around every iteration.
Tool = Callable[[nn.Module], Any]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = (
            part.reshape(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / (width // self.heads) ** 0.5
        later = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), diagonal=1)
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        x = x + self.out(torch.matmul(weights, value).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 32, width: int = 16, heads: int = 2, layers: int = 2) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(8, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(tool: Tool) -> None:
    """Two training steps of a language model."""
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        batch = torch.randint(0, 32, (2, 7))
        with tool(model):
            loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, 32), batch[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x: Tensor, scale: float = 1.0, extra: Tensor | None = None) -> dict[str, Any]:
        y = self.act(self.fc(x)) * scale
        return {"y": y, "rest": (y.sum(), extra)}


class Edges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branch = Branch()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.relu = nn.ReLU()
        self.never_called = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        made = self.branch(x, scale=2.0)
        y = self.layers[0](self.layers[0](made["y"]))
        return checkpoint(self.layers[1], self.relu(y), use_reentrant=False), made["rest"][0]


def edges(tool: Tool) -> None:
    """Every kind of argument and result that has a way to be written."""
    model = Edges()
    x = torch.randn(3, 4, requires_grad=True)
    with tool(model):
        h, rest = model(x)
        parts = [rest, h.sum()]
        joined = torch.cat([h, h * 2, x], dim=0)
        parts.append(torch.stack((h, h), dim=1).sum())
        parts += [part.mean() for part in torch.split(joined, 3, dim=0)]
        copied = joined.clone()
        copied[0] = 1.0
        copied[1:2, :] = torch.zeros(1, 4)
        copied.mul_(torch.tensor(2.0))
        copied += 3
        parts.append(torch.sum(copied))
        parts.append(torch.clamp(joined, min=-0.5, max=None).sum())
        parts.append(torch.max(joined, dim=1)[0].sum())
        parts.append(torch.topk(joined, k=2, dim=1).values.sum())
        parts.append(torch.einsum("ij,kj->ik", h, h).sum())
        parts.append(F.pad(h, (1, 1, 0, 0), mode="constant", value=0.5).sum())
        square = h.reshape(1, 1, 3, 4)
        parts.append(F.interpolate(square, scale_factor=2.0, mode="nearest").sum())
        parts.append(F.scaled_dot_product_attention(square, square, square, is_causal=True).sum())
        parts.append(torch.where(joined > 0, joined, torch.zeros_like(joined)).sum())
        parts.append(F.dropout(joined, p=0.5, training=True).sum())
        parts.append(torch.log_softmax(joined, -1).mean() + torch.norm(joined))
        parts.append(joined.to(torch.bfloat16).float().sum() + joined.t().reshape(-1).exp().sum())
        with torch.no_grad():
            torch.exp(joined)
        torch.sum(torch.zeros(0, 4))
        torch.logical_and(torch.eq(x, x), torch.eq(x, h))
        torch.mul(torch.arange(6).reshape(2, 3), 2)
        torch.add(torch.ones(3, dtype=torch.int8), 1)
        torch.mul(torch.complex(torch.ones(2), torch.ones(2)), 2)
        torch.add(torch.div(torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.0, 0.0, 0.0])), 1.0)
        torch.matmul(torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2, dtype=torch.float16) * 300)
        torch.add(torch.ones(2, dtype=torch.float64), 1)
        torch.mul(torch.tensor(3.5), torch.tensor(2))
        sum(parts).backward()  # type: ignore[union-attr]


def ulpscope_tool(folder: Path, task: str, level: str) -> Iterator[Tool]:
    """A run around all steps."""
    import ulpscope

    run = ulpscope.capture(folder, level=level, task=task)

    @contextmanager
    def iteration(model: nn.Module) -> Iterator[None]:
        run.start(model)
        yield
        run.stop()
        run.step()

    yield iteration
    run.close()


def mindstudio_tool(folder: Path, task: str, level: str) -> Iterator[Tool]:
    """All calls, not only those of the default risk level."""
    from msprobe.pytorch import PrecisionDebugger

    options = {"scope": [], "list": [], "data_mode": ["all"]}
    config = {"task": task, "dump_path": str(folder), "rank": [], "step": [], "level": level}
    file = folder.with_suffix(".json")
    file.write_text(json.dumps({**config, "risk_level": "ALL", task: options}))
    debugger = PrecisionDebugger(config_path=str(file))

    @contextmanager
    def iteration(model: nn.Module) -> Iterator[None]:
        debugger.start(model=model)
        yield
        debugger.stop()
        debugger.step()

    yield iteration


def main() -> int:
    """Makes all dumps with one of the tools."""
    name, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    # What either tool and torch (with an optimizer) load at first use is loaded once, not in every process.
    torch.optim.SGD([torch.zeros(1, requires_grad=True)])
    if name == "mindstudio":
        import msprobe.pytorch  # noqa: F401
    else:
        import ulpscope

        with ulpscope.capture(folder / "nothing"):
            torch.ones(1)
    tool = contextmanager({"ulpscope": ulpscope_tool, "mindstudio": mindstudio_tool}[name])
    for script, task, level in DUMPS:
        child = os.fork()
        if child == 0:
            try:
                torch.set_num_threads(1)
                torch.manual_seed(1234)
                with tool(folder / f"{script}_{task}_{level}", task, level) as around:
                    {"gpt": gpt, "edges": edges}[script](around)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
