"""A language model that spells its attention out, and an encoder that leaves it to one kernel."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from faults.models.parts import Mlp, Network, join_heads, split_heads


class CausalAttention(nn.Module):
    """Softmax over the earlier tokens, with positions as rotations of query and key."""

    other_formula = False

    def __init__(self, width: int, heads: int, places: int) -> None:
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** 0.5
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        half = width // heads // 2
        angles = torch.outer(torch.arange(places), 100.0 ** (-torch.arange(half) / half))
        self.turns = nn.Buffer(torch.cat((angles.cos(), angles.sin()), dim=-1))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        turns = torch.index_select(self.turns, 0, torch.arange(x.shape[1], device=x.device))
        query, key = rotated(query, turns), rotated(key, turns)
        scores = query @ key.transpose(-2, -1)
        scores = scores * (1 / self.scale) if self.other_formula else scores / self.scale
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device), diagonal=1)
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        return cast(Tensor, self.out(join_heads(weights @ value)))


def rotated(x: Tensor, turns: Tensor) -> Tensor:
    """Every pair of numbers turned by the angle of its position."""
    cos, sin = turns.chunk(2, dim=-1)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Decoder(nn.Module):
    """A block of the language model: normalized before."""

    def __init__(self, width: int, heads: int, places: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = CausalAttention(width, heads, places), Mlp(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + cast(Tensor, self.mlp(self.norm2(x)))


class GPT(Network):
    """A causal language model with rotary positions."""

    def __init__(self, vocabulary: int = 40, width: int = 32, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Decoder(width, heads, places=32) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.norm(self.through(self.blocks, self.tokens(tokens)))))


class Encoding(nn.Module):
    """A block of the encoder: normalized after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out, self.mlp = nn.Linear(width, width), Mlp(width, 2 * width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = self.norm1(x + self.out(join_heads(mixed)))
        return cast(Tensor, self.norm2(x + self.mlp(x)))


class Encoder(Network):
    """A classifier of sequences of features."""

    other_formula = False

    def __init__(self, features: int = 12, width: int = 32, heads: int = 4, layers: int = 3) -> None:
        super().__init__()
        self.inlet = nn.Linear(features, width)
        self.places = nn.Parameter(torch.randn(16, width) / 4)
        self.blocks = nn.ModuleList(Encoding(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.through(self.blocks, self.inlet(x) + self.places)
        whole = x.sum(dim=1)
        mean = whole * (1 / 16) if self.other_formula else whole / 16
        return cast(Tensor, self.head(mean))
