"""A step of a diffusion model: the noise of noisy images, by one of two networks."""

from __future__ import annotations

import torch
from torch import Tensor

from ports.handwritten.denoisers import Denoiser, PlainDenoiser
from ports.programs import batches
from ports.programs.program import Program, plain
from ports.programs.weights import drawn, fill


def build(
    family: str,
    name: str,
    plain_operations: bool = False,
    channels_last: bool = False,
    dtype: str | None = None,
) -> Program:
    """`denoiser/{size of images}`."""
    model = PlainDenoiser() if plain_operations else Denoiser()
    fill(model)
    images, noise = batches.pixels(int(name)), drawn("noise", (2, 3, int(name), int(name)))
    steps = torch.tensor([3, 40])
    kept = torch.tensor([0.98, 0.6])[:, None, None, None]
    noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
    if channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        noisy = noisy.contiguous(memory_format=torch.channels_last)
    context = torch.autocast("cpu", torch.bfloat16, enabled=dtype is not None)

    def forward() -> Tensor:
        with context:
            found: Tensor = model(noisy, steps)
        return found

    return plain(model, forward, noise)
