"""One attention layer, as four libraries' functions compute it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.programs.program import Program, plain
from ports.programs.weights import drawn, fill


class Layer(nn.Module):
    """Causal attention with a choice of the function that computes it."""

    def __init__(self, width: int, heads: int, kernel: str) -> None:
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        if self.kernel == "torch":
            # The function under nn.MultiheadAttention.
            mask = torch.ones(length, length, dtype=torch.bool).triu(1)
            mixed, _ = F.multi_head_attention_forward(
                x.transpose(0, 1), x.transpose(0, 1), x.transpose(0, 1), width, self.heads,
                self.in_proj.weight, self.in_proj.bias, None, None, False, 0.0,
                self.out_proj.weight, self.out_proj.bias, training=False, need_weights=False, attn_mask=mask,
            )  # fmt: skip
            return mixed.transpose(0, 1)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        if self.kernel == "flex":
            from torch.nn.attention.flex_attention import flex_attention

            def causal(score: Tensor, b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
                return torch.where(row >= column, score, -float("inf"))

            mixed = flex_attention(q, k, v, score_mod=causal)  # type: ignore[assignment]
        elif self.kernel == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif self.kernel == "blocks":
            mixed = by_blocks(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
            scores = scores + torch.full((length, length), float("-inf")).triu(1)
            mixed = scores.softmax(-1) @ v
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, length, width))


def by_blocks(q: Tensor, k: Tensor, v: Tensor, size: int = 4) -> Tensor:
    """Keys in blocks with a running maximum, as fused kernels have them."""
    length = q.shape[-2]
    rows = torch.arange(length)[:, None]
    top = torch.full((*q.shape[:-1], 1), float("-inf"))
    total, summed = torch.zeros_like(top), torch.zeros_like(q)
    for start in range(0, length, size):
        scores = q @ k[..., start : start + size, :].transpose(-2, -1) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(rows < torch.arange(start, min(start + size, length)), float("-inf"))
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights = torch.exp(scores - higher)
        shrink = torch.exp(top - higher)
        total = total * shrink + weights.sum(-1, keepdim=True)
        summed = summed * shrink + weights @ v[..., start : start + size, :]
        top = higher
    return summed / total


class Stack(nn.Module):
    """Two layers with norms."""

    def __init__(self, width: int, heads: int, kernel: str) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.layers = nn.ModuleList(Layer(width, heads, kernel) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return x


def build(family: str, name: str, dtype: str | None = None) -> Program:
    """`attention/{kernel}`."""
    model = Stack(32, 4, name)
    fill(model)
    x = drawn("inputs", (2, 12, 32))
    if dtype is not None:
        model, x = model.to(getattr(torch, dtype)), x.to(getattr(torch, dtype))

    def forward() -> Tensor:
        found: Tensor = model(x)
        return found

    return plain(model, forward, drawn("wanted", (2, 12, 32)))
