"""Weights that depend on a parameter's name alone: two releases of a library get the same ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import torch
from torch import Tensor, nn


def drawn(name: str, shape: torch.Size | tuple[int, ...], seed: int = 0) -> Tensor:
    """Normal random numbers for a name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
    return torch.randn(shape, generator=generator)


def value(name: str, tensor: Tensor) -> Tensor:
    """What training could have left in a parameter or buffer."""
    noise = drawn(name, tensor.shape)
    if name.endswith("running_var"):
        return 0.5 + noise.abs()
    if name.endswith("running_mean"):
        return 0.3 * noise
    if tensor.dim() < 2:
        # Scales of norms stay near the constant that they start from; shifts are no longer zero.
        start = tensor.detach().reshape(-1)
        return 0.1 * noise + (start[0] if bool((start == start[:1]).all()) else 0.0)
    # Experts in one tensor have the width of one.
    fan_in = tensor.shape[-1] if "experts." in name else tensor[0].numel()
    if "embed" in name or "wte" in name or "shared" in name:
        return 0.5 * noise
    return noise / fan_in**0.5


def fill(model: nn.Module, rename: Callable[[str], str] = lambda name: name) -> None:
    """Gives each parameter and running statistic its values."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(value(rename(name), parameter))
        for name, buffer in model.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.copy_(value(rename(name), buffer))


# Projections of an expert by the names of releases that keep each expert in a module.
GATES, UPS, DOWNS = ("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")


def fill_experts(model: nn.Module) -> None:
    """Gives experts in modules the values that experts in one tensor have."""
    for path, experts in model.named_modules():
        if not (path.endswith(".experts") and isinstance(experts, nn.ModuleList)):
            continue
        path = path.replace(".block_sparse_moe.", ".mlp.")
        linears = [
            [next(getattr(expert, name) for name in names if hasattr(expert, name)) for expert in experts]
            for names in (GATES, UPS, DOWNS)
        ]
        inner, width = linears[0][0].weight.shape
        count = len(experts)
        gates, ups = value(f"{path}.gate_up_proj", torch.empty(count, 2 * inner, width)).chunk(2, dim=1)
        downs = value(f"{path}.down_proj", torch.empty(count, width, inner))
        for given, group in zip((gates, ups, downs), linears, strict=True):
            for one, linear in zip(given, group, strict=True):
                with torch.no_grad():
                    linear.weight.copy_(one)
