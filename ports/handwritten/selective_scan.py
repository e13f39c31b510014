"""Mamba in one file, with its state carried from token to token."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.handwritten.llama import RMSNorm

Weights = dict[str, Tensor]


class Mixer(nn.Module):
    """A short convolution, then a linear recurrence whose coefficients depend on the token."""

    def __init__(self, width: int, inner: int, state: int, rank: int, kernel: int) -> None:
        super().__init__()
        self.state, self.rank = state, rank
        self.enter, self.gate = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, kernel, groups=inner)
        self.select, self.step = nn.Linear(inner, rank + 2 * state, bias=False), nn.Linear(rank, inner)
        self.decay_log, self.skip = nn.Parameter(torch.zeros(inner, state)), nn.Parameter(torch.ones(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, x = self.gate(x), self.enter(x)
        # Only what came before a token may reach it.
        x = self.conv(F.pad(x.mT, (self.conv.kernel_size[0] - 1, 0))).mT
        x = x * torch.sigmoid(x)
        step, into, out = self.select(x).split([self.rank, self.state, self.state], dim=-1)
        step = torch.log1p(torch.exp(self.step(step)))
        decay = -self.decay_log.exp()
        state, outputs = torch.zeros(x.shape[0], x.shape[2], self.state, dtype=x.dtype), []
        for token in range(x.shape[1]):
            size = step[:, token, :, None]
            state = state * torch.exp(size * decay) + size * into[:, token, None] * x[:, token, :, None]
            outputs.append((state * out[:, token, None]).sum(-1))
        x = torch.stack(outputs, dim=1) + self.skip * x
        return self.leave(x * F.silu(gate))


class Mamba(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int,
        inner: int,
        state: int,
        rank: int,
        kernel: int,
        eps: float,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.norms = nn.ModuleList(RMSNorm(width, eps) for _ in range(layers))
        self.mixers = nn.ModuleList(Mixer(width, inner, state, rank, kernel) for _ in range(layers))
        self.norm = RMSNorm(width, eps)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for norm, mixer in zip(self.norms, self.mixers, strict=True):
            x = x + mixer(norm(x))
        return self.norm(x) @ self.words.weight.T

    def take(self, given: Weights) -> None:
        """Loads the weights of `MambaForCausalLM`."""
        mine = {
            "words.weight": given["backbone.embeddings.weight"],
            "norm.scale": given["backbone.norm_f.weight"],
        }
        names = {
            "conv.weight": "conv1d.weight",
            "conv.bias": "conv1d.bias",
            "select.weight": "x_proj.weight",
            "step.weight": "dt_proj.weight",
            "step.bias": "dt_proj.bias",
            "decay_log": "A_log",
            "skip": "D",
            "leave.weight": "out_proj.weight",
        }
        for number in range(len(self.mixers)):
            theirs, ours = f"backbone.layers.{number}.", f"mixers.{number}."
            mine[f"norms.{number}.scale"] = given[f"{theirs}norm.weight"]
            enter, gate = given[f"{theirs}mixer.in_proj.weight"].chunk(2)
            mine[f"{ours}enter.weight"], mine[f"{ours}gate.weight"] = enter, gate
            mine |= {f"{ours}{own}": given[f"{theirs}mixer.{name}"] for own, name in names.items()}
        self.load_state_dict(mine)
