"""Programs that compute the same as a library's model in another arrangement.

Inputs are cut differently (padding, packing, a cache), or weights are kept differently (merged, split over
devices).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made, wanted_of
from ports.programs.program import Program, plain
from ports.programs.weights import drawn


def padded(length: int = 12, side: str = "right", to: int = 16) -> Program:
    """Llama on a batch that is padded to a longer length; the output is that of the tokens."""
    model, _ = made("llama")
    ids = batches.tokens(97, length)
    mask = torch.ones_like(ids)
    fill = (0, to - length) if side == "right" else (to - length, 0)
    positions = F.pad(torch.arange(length), fill).expand(2, -1)
    given = {
        "input_ids": F.pad(ids, fill),
        "attention_mask": F.pad(mask, fill),
        "position_ids": positions,
    }
    kept = slice(0, length) if side == "right" else slice(to - length, to)

    def forward() -> Tensor:
        found: Tensor = model(**given, use_cache=False).logits[:, kept]
        return found

    return plain(model, forward, batches.tokens(97, length, seed=7))


def packed(as_one: bool = True) -> Program:
    """Two sequences of Llama in one row with a block mask, or as a batch."""
    model, _ = made("llama")
    ids = batches.tokens(97, 8)
    given: dict[str, Any] = {"input_ids": ids}
    if as_one:
        allowed = torch.block_diag(  # type: ignore[no-untyped-call]
            *[torch.ones(8, 8).tril()] * 2
        )
        mask = torch.zeros(16, 16).masked_fill(allowed == 0, torch.finfo(torch.float32).min)
        given = {
            "input_ids": ids.reshape(1, 16),
            "position_ids": torch.arange(8).repeat(2)[None],
            "attention_mask": mask[None, None],
        }

    def forward() -> Tensor:
        found: Tensor = model(**given, use_cache=False).logits
        return found.reshape(2, 8, -1)

    return plain(model, forward, batches.tokens(97, 8, seed=7))


def decoded(of: str = "llama", cached: bool = True) -> Program:
    """Token by token with a cache, or all tokens at once."""
    model, _ = made(of)
    ids = batches.tokens(97, 6)

    def forward() -> Tensor:
        if not cached:
            found: Tensor = model(input_ids=ids, use_cache=False).logits
            return found
        outputs, past = [], None
        for place in range(ids.shape[1]):
            step = model(input_ids=ids[:, place : place + 1], past_key_values=past, use_cache=True)
            past = step.past_key_values
            outputs.append(step.logits)
        return torch.cat(outputs, dim=1)

    return plain(model, forward, batches.tokens(97, 6, seed=7))


class LowRank(nn.Module):
    """A linear layer with an added product of low rank."""

    def __init__(self, base: nn.Linear, name: str) -> None:
        super().__init__()
        self.base, self.scale = base, 0.5
        self.a = nn.Parameter(drawn(f"{name}.a", (4, base.in_features)) / base.in_features**0.5)
        self.b = nn.Parameter(0.3 * drawn(f"{name}.b", (base.out_features, 4)))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.a), self.b) * self.scale

    def merged(self) -> nn.Linear:
        """One matrix for all of it."""
        with torch.no_grad():
            self.base.weight += self.scale * self.b @ self.a
        return self.base


def low_rank(merged: bool = False, of: str = "llama") -> Program:
    """Adapters on the attention's projections, merged into them or not."""
    model, architecture = made(of)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and path.endswith(("q_proj", "v_proj", "query", "value")):
            adapted = LowRank(module, path)
            parent = model.get_submodule(path.rpartition(".")[0])
            setattr(parent, path.rpartition(".")[2], adapted.merged() if merged else adapted)
    ids = batches.tokens(97, 12)

    def forward() -> Tensor:
        found: Tensor = model(input_ids=ids).logits
        return found

    return plain(model, forward, wanted_of(architecture, {"input_ids": ids}))


class SplitMlp(nn.Module):
    """Llama's feed-forward part over two devices: columns, then rows, then a sum."""

    def __init__(self, mlp: Any, parts: int = 2) -> None:
        super().__init__()
        self.gates = nn.ParameterList(mlp.gate_proj.weight.detach().clone().chunk(parts))
        self.ups = nn.ParameterList(mlp.up_proj.weight.detach().clone().chunk(parts))
        self.downs = nn.ParameterList(mlp.down_proj.weight.detach().clone().chunk(parts, dim=1))

    def forward(self, x: Tensor) -> Tensor:
        partial = [
            F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
            for gate, up, down in zip(self.gates, self.ups, self.downs, strict=True)
        ]
        return torch.stack(partial).sum(0)


class SplitColumns(nn.Module):
    """A linear layer over two devices by columns, gathered."""

    def __init__(self, linear: nn.Linear, parts: int = 2) -> None:
        super().__init__()
        self.parts = nn.ParameterList(linear.weight.detach().clone().chunk(parts))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([F.linear(x, part) for part in self.parts], dim=-1)


def split(where: str = "mlp") -> Program:
    """Tensor-parallel Llama, by hand in one process."""
    model, architecture = made("llama")
    inner: Any = model
    for layer in inner.model.layers:
        if where == "mlp":
            layer.mlp = SplitMlp(layer.mlp)
        else:
            layer.self_attn.q_proj = SplitColumns(layer.self_attn.q_proj)
            layer.self_attn.o_proj = SplitColumns(layer.self_attn.o_proj)
    if where == "head":
        inner.lm_head = SplitColumns(inner.lm_head)
    ids = batches.tokens(97, 12)

    def forward() -> Tensor:
        found: Tensor = model(input_ids=ids, use_cache=False).logits
        return found

    return plain(model, forward, wanted_of(architecture, {"input_ids": ids}))


def checkpointed_layers(of: str = "llama", checkpointed: bool = True) -> Program:
    """With activations computed again in the backward pass, or kept."""
    model, architecture = made(of)
    if checkpointed:
        inner: Any = model
        inner.train()
        inner.gradient_checkpointing_enable({"use_reentrant": False})
    ids = batches.tokens(97, 12)

    def forward() -> Tensor:
        found: Tensor = model(input_ids=ids, use_cache=False).logits
        return found

    return plain(model, forward, wanted_of(architecture, {"input_ids": ids}))


MADE: dict[str, Callable[..., Program]] = {
    "padded": padded,
    "packed": packed,
    "decoded": decoded,
    "low-rank": low_rank,
    "split": split,
    "checkpointed": checkpointed_layers,
}


def build(family: str, name: str, **options: Any) -> Program:
    """`variant/{name}`."""
    return MADE[name](**options)
