"""Batches, the same for every program that is given the same sizes."""

from __future__ import annotations

import torch
from torch import Tensor


def tokens(vocabulary: int, length: int = 12, batch: int = 2, seed: int = 1) -> Tensor:
    """Token ids; 0 to 3 are left to padding and the like."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocabulary, (batch, length), generator=generator)


def padding(ids: Tensor, missing: int = 3) -> Tensor:
    """An attention mask: the second row is shorter."""
    mask = torch.ones_like(ids)
    mask[1, ids.shape[1] - missing :] = 0
    return mask


def pixels(size: int = 32, batch: int = 2, channels: int = 3, seed: int = 2) -> Tensor:
    """Images."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((batch, channels, size, size), generator=generator)


def classes(count: int, batch: int = 2, seed: int = 3) -> Tensor:
    """Labels of images."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, count, (batch,), generator=generator)
