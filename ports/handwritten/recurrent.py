"""Recurrent layers as people write them, one step at a time, with the weights of torch's."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Cells(nn.Module):
    """Layers of one kind of cell; its parameters have the names that torch gives them."""

    gates = 4

    def __init__(self, width: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        for layer in range(layers):
            for kind, size in (("ih", width if layer == 0 else hidden), ("hh", hidden)):
                weight = nn.Parameter(torch.empty(self.gates * hidden, size))
                self.register_parameter(f"weight_{kind}_l{layer}", weight)
                self.register_parameter(
                    f"bias_{kind}_l{layer}", nn.Parameter(torch.empty(self.gates * hidden))
                )

    def entering(self, x: Tensor, layer: int) -> Tensor:
        """What the inputs of all steps add to the gates."""
        return x @ getattr(self, f"weight_ih_l{layer}").T + getattr(self, f"bias_ih_l{layer}")

    def returning(self, state: Tensor, layer: int) -> Tensor:
        """What the state of the step before adds to them."""
        return state @ getattr(self, f"weight_hh_l{layer}").T + getattr(self, f"bias_hh_l{layer}")

    def run(self, x: Tensor, layer: int) -> Tensor:
        """The states of one layer at all steps."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        for layer in range(self.layers):
            x = self.run(x, layer)
        return x, None


class Lstm(Cells):
    def run(self, x: Tensor, layer: int) -> Tensor:
        state = cell = x.new_zeros(x.shape[0], self.hidden)
        entering, states = self.entering(x, layer), []
        for token in range(x.shape[1]):
            gates = entering[:, token] + self.returning(state, layer)
            into, kept, new, shown = gates.chunk(4, dim=-1)
            cell = torch.sigmoid(kept) * cell + torch.sigmoid(into) * torch.tanh(new)
            state = torch.sigmoid(shown) * torch.tanh(cell)
            states.append(state)
        return torch.stack(states, dim=1)


class Gru(Cells):
    gates = 3

    def run(self, x: Tensor, layer: int) -> Tensor:
        state = x.new_zeros(x.shape[0], self.hidden)
        entering, states = self.entering(x, layer), []
        for token in range(x.shape[1]):
            reset, update, new = entering[:, token].chunk(3, dim=-1)
            reset_back, update_back, new_back = self.returning(state, layer).chunk(3, dim=-1)
            update = torch.sigmoid(update + update_back)
            new = torch.tanh(new + torch.sigmoid(reset + reset_back) * new_back)
            state = (1 - update) * new + update * state
            states.append(state)
        return torch.stack(states, dim=1)
