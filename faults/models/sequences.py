"""Recurrent layers: whole ones, each a single call, and a cell that is called token by token."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from faults.models.parts import Mlp, Network


class Layer(nn.Module):
    """A recurrent layer and what is around it."""

    def __init__(self, recurrent: type[nn.LSTM] | type[nn.GRU], width: int) -> None:
        super().__init__()
        self.recurrent = recurrent(width, width, batch_first=True)
        self.norm, self.mlp = nn.LayerNorm(width), Mlp(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.recurrent(self.norm(x))
        return x + cast(Tensor, self.mlp(states))


class Recurrent(Network):
    """A language model: an LSTM, a GRU, a second LSTM, and a cell by hand."""

    other_formula = False

    def __init__(self, vocabulary: int = 40, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Layer(kind, width) for kind in (nn.LSTM, nn.GRU, nn.LSTM))
        self.cell, self.head = nn.GRUCell(width, width), nn.Linear(width, vocabulary)

    def forward(self, words: Tensor) -> Tensor:
        states = self.through(self.blocks, self.words(words))
        shares = F.softmax(states.sum(dim=-1, keepdim=True), dim=1)
        hidden, seen = (states * shares).sum(dim=1), []
        for state in states.unbind(1):
            hidden = self.cell(state, hidden)
            seen.append(hidden)
        joined = torch.stack(seen, dim=1)
        mixed = (joined + states) * 0.5 if self.other_formula else (joined + states) / 2
        return cast(Tensor, self.head(mixed))
