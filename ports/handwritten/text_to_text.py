"""T5 with gated feed-forward parts in one file: biases of positions from a table, fused projections."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


class Scale(nn.Module):
    """The norm without a mean."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def bucket(distance: int, both: bool, buckets: int, longest: int) -> int:
    """The number of a bias for a distance from query to key."""
    start = 0
    if both:
        buckets //= 2
        start, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    far = math.log(distance / exact) / math.log(longest / exact) * (buckets - exact)
    return start + min(exact + int(far), buckets - 1)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, head: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv = (
            nn.Linear(width, heads * head, bias=False),
            nn.Linear(width, 2 * heads * head, bias=False),
        )
        self.o = nn.Linear(heads * head, width, bias=False)

    def forward(self, x: Tensor, source: Tensor, bias: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(source).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)
        return self.o(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, head: int, eps: float, crossed: bool) -> None:
        super().__init__()
        self.norms = nn.ModuleList(Scale(width, eps) for _ in range(3 if crossed else 2))
        self.own = Attention(width, heads, head)
        self.crossed = Attention(width, heads, head) if crossed else None
        self.wi, self.wo = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, bias: Tensor, source: Tensor | None, source_bias: Tensor | None) -> Tensor:
        normed = self.norms[0](x)
        x = x + self.own(normed, normed, bias)
        if self.crossed is not None:
            x = x + self.crossed(self.norms[1](x), source, source_bias)
        gate, up = self.wi(self.norms[-1](x)).chunk(2, dim=-1)
        return x + self.wo(F.gelu(gate, approximate="tanh") * up)


class Stack(nn.Module):
    def __init__(
        self, width: int, inner: int, layers: int, heads: int, head: int, eps: float,
        buckets: int, longest: int, crossed: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.crossed, self.buckets, self.longest = crossed, buckets, longest
        self.table = nn.Embedding(buckets, heads)
        self.layers = nn.ModuleList(Layer(width, inner, heads, head, eps, crossed) for _ in range(layers))
        self.norm = Scale(width, eps)

    def positions(self, length: int) -> Tensor:
        """Biases of all pairs of positions, and what a decoder must not see."""
        numbers = [
            [bucket(key - query, not self.crossed, self.buckets, self.longest) for key in range(length)]
            for query in range(length)
        ]
        bias = self.table(torch.tensor(numbers)).permute(2, 0, 1)[None]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        return bias.masked_fill(future, float("-inf")) if self.crossed else bias

    def forward(self, x: Tensor, mask: Tensor, source: Tensor | None = None) -> Tensor:
        seen = torch.zeros(mask.shape).masked_fill(mask == 0, float("-inf"))[:, None, None]
        bias = self.positions(x.shape[1])
        bias, source_bias = (bias, seen) if self.crossed else (bias + seen, None)
        for layer in self.layers:
            x = layer(x, bias, source, source_bias)
        return self.norm(x)


class TextToText(nn.Module):
    def __init__(
        self, vocabulary: int, width: int, inner: int, layers: int, heads: int, head: int, eps: float,
        buckets: int, longest: int,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (width, inner, layers, heads, head, eps, buckets, longest)
        self.words, self.width = nn.Embedding(vocabulary, width), width
        self.encoder, self.decoder = Stack(*sizes, crossed=False), Stack(*sizes, crossed=True)

    def forward(self, tokens: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        source = self.encoder(self.words(tokens), mask)
        x = self.decoder(self.words(wanted), mask, source) / math.sqrt(self.width)
        return F.linear(x, self.words.weight)

    def take(self, given: Weights) -> None:
        """Loads the weights of `T5ForConditionalGeneration`."""
        mine = {"words.weight": given["shared.weight"]}
        for name, stack in (("encoder", self.encoder), ("decoder", self.decoder)):
            first = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            mine[f"{name}.table.weight"] = given[first]
            mine[f"{name}.norm.weight"] = given[f"{name}.final_layer_norm.weight"]
            for number, layer in enumerate(stack.layers):
                theirs, ours = f"{name}.block.{number}.layer.", f"{name}.layers.{number}."
                last = len(layer.norms) - 1  # type: ignore[arg-type]
                for place in range(last + 1):
                    mine[f"{ours}norms.{place}.weight"] = given[f"{theirs}{place}.layer_norm.weight"]
                attentions = {"own": "0.SelfAttention", "crossed": "1.EncDecAttention"}
                for own, other in list(attentions.items())[:last]:
                    q, k, v, o = (given[f"{theirs}{other}.{part}.weight"] for part in "qkvo")
                    mine |= {f"{ours}{own}.q.weight": q, f"{ours}{own}.o.weight": o}
                    mine[f"{ours}{own}.kv.weight"] = torch.cat([k, v])
                dense = f"{theirs}{last}.DenseReluDense."
                gates = [given[f"{dense}wi_{place}.weight"] for place in range(2)]
                mine[f"{ours}wi.weight"], mine[f"{ours}wo.weight"] = (
                    torch.cat(gates),
                    given[f"{dense}wo.weight"],
                )
        self.load_state_dict(mine)
