"""A network that removes noise from images, as two projects write it; both have the same parameters.

`Denoiser` is made of torch's layers. `PlainDenoiser` computes norms and attention from single operations.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

WIDTH, GROUPS, TIME = 8, 4, 16


def of_time(steps: Tensor, width: int) -> Tensor:
    """Cosines, then sines, of a step of the noise."""
    rates = torch.exp(-math.log(10000.0) * torch.arange(width // 2, dtype=torch.float32) / (width // 2))
    angles = steps[:, None].float() * rates[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResidualBlock(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(GROUPS, width, eps=1e-6), nn.GroupNorm(GROUPS, out, eps=1e-6)
        self.conv1, self.conv2 = nn.Conv2d(width, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(TIME, out)
        self.shortcut = nn.Conv2d(width, out, 1) if width != out else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(F.silu(self.norm1(x)))
        hidden = hidden + self.time(F.silu(time))[:, :, None, None]
        hidden = self.conv2(F.silu(self.norm2(hidden)))
        if self.shortcut is not None:
            x = self.shortcut(x)
        return x + hidden


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(GROUPS, width, eps=1e-6), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, width, high, wide = x.shape
        hidden = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(hidden).view(batch, -1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        hidden = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, -1, width)
        return x + self.out(hidden).transpose(1, 2).reshape(batch, width, high, wide)


class Denoiser(nn.Module):
    """Two sizes of the image, with what the first part saw added to the last."""

    def __init__(self) -> None:
        super().__init__()
        self.time1, self.time2 = nn.Linear(WIDTH, TIME), nn.Linear(TIME, TIME)
        self.enter = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.down1, self.shrink = ResidualBlock(WIDTH, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.down2, self.attention = ResidualBlock(WIDTH, 2 * WIDTH), SelfAttention(2 * WIDTH)
        self.middle, self.grow = (
            ResidualBlock(2 * WIDTH, 2 * WIDTH),
            nn.Conv2d(2 * WIDTH, 2 * WIDTH, 3, padding=1),
        )
        self.up, self.norm = ResidualBlock(3 * WIDTH, WIDTH), nn.GroupNorm(GROUPS, WIDTH, eps=1e-6)
        self.leave = nn.Conv2d(WIDTH, 3, 3, padding=1)

    def forward(self, images: Tensor, steps: Tensor) -> Tensor:
        time = self.time2(F.silu(self.time1(of_time(steps, WIDTH))))
        seen = self.down1(self.enter(images), time)
        x = self.attention(self.down2(self.shrink(seen), time))
        x = self.middle(x, time)
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up(torch.cat([x, seen], dim=1), time)
        return self.leave(F.silu(self.norm(x)))


def group_norm(x: Tensor, norm: nn.GroupNorm) -> Tensor:
    """Norms of groups of channels, from sums."""
    grouped = x.reshape(x.shape[0], norm.num_groups, -1)
    grouped = grouped - grouped.mean(-1, keepdim=True)
    grouped = grouped / (grouped.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    return grouped.view_as(x) * norm.weight[:, None, None] + norm.bias[:, None, None]


def swish(x: Tensor) -> Tensor:
    return x * x.sigmoid()


class PlainDenoiser(Denoiser):
    """The same from single operations; its images are doubled by repetition."""

    def residual(self, block: ResidualBlock, x: Tensor, time: Tensor) -> Tensor:
        hidden = block.conv1(swish(group_norm(x, block.norm1)))
        hidden = hidden + block.time(swish(time)).unsqueeze(-1).unsqueeze(-1)
        hidden = block.conv2(swish(group_norm(hidden, block.norm2)))
        return hidden + (block.shortcut(x) if block.shortcut is not None else x)

    def attend(self, part: SelfAttention, x: Tensor) -> Tensor:
        # A product with every pixel is a convolution of size one.
        packed = F.conv2d(group_norm(x, part.norm), part.qkv.weight[:, :, None, None], part.qkv.bias)
        q, k, v = packed.reshape(x.shape[0], 3, part.heads, -1, x.shape[2] * x.shape[3]).unbind(1)
        weights = torch.einsum("bhci,bhcj->bhij", q * q.shape[2] ** -0.5, k).softmax(dim=-1)
        mixed = torch.einsum("bhij,bhcj->bhci", weights, v).flatten(1, 2).view_as(x)
        return F.conv2d(mixed, part.out.weight[:, :, None, None], part.out.bias) + x

    def forward(self, images: Tensor, steps: Tensor) -> Tensor:
        rates = 10000.0 ** (-torch.arange(WIDTH // 2) / (WIDTH // 2))
        angles = torch.outer(steps.float(), rates)
        time = self.time2(swish(self.time1(torch.cat((torch.cos(angles), torch.sin(angles)), 1))))
        seen = self.residual(self.down1, self.enter(images), time)
        x = self.attend(self.attention, self.residual(self.down2, self.shrink(seen), time))
        x = self.residual(self.middle, x, time).repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        x = self.residual(self.up, torch.cat((self.grow(x), seen), 1), time)
        return self.leave(swish(group_norm(x, self.norm)))
