"""Llama in one file: one projection for queries, keys and values, rotary positions in two forms."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps, self.scale = eps, nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        power = (x.float() * x.float()).mean(dim=-1, keepdim=True)
        return (x.float() / torch.sqrt(power + self.eps)).to(x.dtype) * self.scale


class Rotary(nn.Module):
    """Pairs of neighbours as complex numbers, or halves of a head as in transformers."""

    rates: Tensor

    def __init__(self, head: int, interleaved: bool) -> None:
        super().__init__()
        self.interleaved = interleaved
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, head, 2).float() / head), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """`x` is batch, position, head, width."""
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), self.rates)
        if self.interleaved:
            turned = torch.polar(torch.ones_like(angles), angles)[None, :, None]
            pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turned).flatten(-2).to(x.dtype)
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, interleaved: bool, kernel: str) -> None:
        super().__init__()
        self.heads, self.groups, self.head, self.kernel = heads, groups, width // heads, kernel
        self.wqkv = nn.Linear(width, (heads + 2 * groups) * self.head, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(self.head, interleaved)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        sizes = [self.heads * self.head, self.groups * self.head, self.groups * self.head]
        q, k, v = self.wqkv(x).split(sizes, dim=-1)
        q = self.rotary(q.view(batch, length, self.heads, self.head)).transpose(1, 2)
        k = self.rotary(k.view(batch, length, self.groups, self.head)).transpose(1, 2)
        v = v.view(batch, length, self.groups, self.head).transpose(1, 2)
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        if self.kernel == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head)
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            mixed = scores.masked_fill(future, float("-inf")).softmax(dim=-1) @ v
        return self.wo(mixed.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.w13, self.w2 = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.w13(x).chunk(2, dim=-1)
        return self.w2(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(
        self, width: int, heads: int, groups: int, inner: int, eps: float, interleaved: bool, kernel: str
    ) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(width, eps), RMSNorm(width, eps)
        self.attention = Attention(width, heads, groups, interleaved, kernel)
        self.feed_forward = FeedForward(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        inner: int,
        layers: int,
        heads: int,
        groups: int,
        eps: float = 1e-6,
        interleaved: bool = False,
        kernel: str = "plain",
    ) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            Block(width, heads, groups, inner, eps, interleaved, kernel) for _ in range(layers)
        )
        self.norm = RMSNorm(width, eps)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.interleaved, self.head = interleaved, width // heads

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))

    def take(self, given: Weights) -> None:
        """Loads the weights of `LlamaForCausalLM`."""
        mine = {
            "tok_embeddings.weight": given["model.embed_tokens.weight"],
            "norm.scale": given["model.norm.weight"],
            "output.weight": given["lm_head.weight"],
        }
        for number in range(len(self.layers)):
            theirs, ours = f"model.layers.{number}.", f"layers.{number}."
            q, k, v = (given[f"{theirs}self_attn.{name}_proj.weight"] for name in "qkv")
            mine[f"{ours}attention.wqkv.weight"] = torch.cat([self._turned(q), self._turned(k), v])
            mine[f"{ours}attention.wo.weight"] = given[f"{theirs}self_attn.o_proj.weight"]
            gate, up = (given[f"{theirs}mlp.{name}_proj.weight"] for name in ("gate", "up"))
            mine[f"{ours}feed_forward.w13.weight"] = torch.cat([gate, up])
            mine[f"{ours}feed_forward.w2.weight"] = given[f"{theirs}mlp.down_proj.weight"]
            mine[f"{ours}attention_norm.scale"] = given[f"{theirs}input_layernorm.weight"]
            mine[f"{ours}ffn_norm.scale"] = given[f"{theirs}post_attention_layernorm.weight"]
        self.load_state_dict(mine)

    def _turned(self, weight: Tensor) -> Tensor:
        """Rows in the order that pairs of neighbours need."""
        if not self.interleaved:
            return weight
        rows = weight.view(-1, 2, self.head // 2, weight.shape[1])
        return rows.transpose(1, 2).reshape(weight.shape)
