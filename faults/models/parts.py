"""What several models are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Network(nn.Module):
    """A model with a loss. Its body is a row of blocks, whose inner results may be computed twice."""

    checkpointed = False

    def loss(self, found: Tensor, wanted: Tensor) -> Tensor:
        """Of a classifier, over the last dimension."""
        return F.cross_entropy(found.reshape(-1, found.shape[-1]), wanted.reshape(-1))

    def through(self, blocks: Iterable[nn.Module], x: Tensor) -> Tensor:
        """The blocks one after the other."""
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


class Projection(nn.Module):
    """A linear layer as older code has it: a product and a sum. The other formula is one call."""

    other_formula = False

    def __init__(self, taken: int, given: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(taken, given) / taken**0.5)
        self.bias = nn.Parameter(torch.randn(given) / 4)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if self.other_formula:
            given = torch.addmm(self.bias, rows, self.weight)
        else:
            given = torch.mm(rows, self.weight) + self.bias
        return given.reshape(*x.shape[:-1], -1)


class Mlp(nn.Module):
    """Two linear layers with an activation between them, which a fused kernel may take over."""

    fused: type[torch.autograd.Function] | None = None

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = Projection(hidden, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        if self.fused is None:
            hidden = F.gelu(self.up(x))
        else:
            hidden = cast(Tensor, self.fused.apply(x, self.up.weight, self.up.bias))  # type: ignore[no-untyped-call]
        return self.dropout(cast(Tensor, self.down(hidden)))  # type: ignore[no-any-return]


def split_heads(x: Tensor, heads: int) -> Tensor:
    """From batch, tokens, width to batch, heads, tokens, width of a head."""
    return x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Back again."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)
