"""GPT-2 in one file, with `nn.Linear` where the library has transposed weights."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, split: bool) -> None:
        super().__init__()
        self.heads, self.split = heads, split
        if split:
            self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        else:
            self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (self.q(x), self.k(x), self.v(x)) if self.split else self.qkv(x).chunk(3, dim=-1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        allowed = torch.tril(torch.ones(length, length, device=x.device))
        scores = scores.masked_fill(allowed == 0, float("-inf"))
        mixed = F.softmax(scores, dim=-1) @ v
        return self.proj(mixed.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, split: bool) -> None:
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), SelfAttention(width, heads, split)
        self.ln2 = nn.LayerNorm(width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(
        self, vocabulary: int, width: int, layers: int, heads: int, positions: int, split: bool = False
    ) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads, split) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.split = split

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.t()

    def take(self, given: Weights) -> None:
        """Loads the weights of `GPT2LMHeadModel`."""
        mine = {
            "wte.weight": given["transformer.wte.weight"],
            "wpe.weight": given["transformer.wpe.weight"],
            "ln_f.weight": given["transformer.ln_f.weight"],
            "ln_f.bias": given["transformer.ln_f.bias"],
        }
        for number in range(len(self.blocks)):
            theirs, ours = f"transformer.h.{number}.", f"blocks.{number}."
            names = {
                "ln_1": "ln1",
                "ln_2": "ln2",
                "attn.c_attn": "attn.qkv",
                "attn.c_proj": "attn.proj",
                "mlp.c_fc": "fc",
                "mlp.c_proj": "out",
            }
            for name, own in names.items():
                mine[f"{ours}{own}.weight"] = given[f"{theirs}{name}.weight"].t().contiguous()
                mine[f"{ours}{own}.bias"] = given[f"{theirs}{name}.bias"]
            if self.split:
                for kind in ("weight", "bias"):
                    parts = mine.pop(f"{ours}attn.qkv.{kind}").chunk(3)
                    mine.update(
                        {f"{ours}attn.{name}.{kind}": part for name, part in zip("qkv", parts, strict=True)}
                    )
        self.load_state_dict(mine)
