"""A small mixture of experts: every token goes to two of four."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from faults.models.parts import Mlp, Network


class Experts(nn.Module):
    """Which expert takes a token is a choice: the router is so decided that rounding does not change it."""

    def __init__(self, width: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        nn.init.normal_(self.router.weight, std=2.0)
        self.experts = nn.ModuleList(Mlp(width, 2 * width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.shape[-1])
        shares = F.softmax(self.router(tokens), dim=-1)
        weights, places = torch.topk(shares, self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        given = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows, rank = torch.where(places == number)
            if rows.numel():
                share = weights[rows, rank].unsqueeze(-1)
                taken = expert(torch.index_select(tokens, 0, rows)) * share
                given = torch.index_add(given, 0, rows, taken.to(given.dtype))
        return given.reshape(x.shape)


class Layer(nn.Module):
    """A block of the mixture."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)
        self.experts = Experts(width, experts=4, chosen=2)

    def forward(self, x: Tensor) -> Tensor:
        return x + cast(Tensor, self.experts(self.mix(self.norm(x))))


class Mixture(Network):
    """A regression with experts."""

    other_formula = False

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width)

    def loss(self, found: Tensor, wanted: Tensor) -> Tensor:
        """The mean square of what is left."""
        rest = F.mse_loss(found, wanted)
        return rest * 0.5 if self.other_formula else rest / 2

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.norm(self.through(self.blocks, x))))
