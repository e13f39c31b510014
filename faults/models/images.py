"""Convolutions: a classifier with batch norm, and a U-Net with an attention in the middle."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from faults.models.parts import Network, join_heads, split_heads


class FrozenNorm(nn.BatchNorm2d):
    """A batch norm that takes its running statistics, as in fine-tuning."""

    frozen = True


class Residual(nn.Module):
    """Two convolutions around which the input goes."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), FrozenNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(x + y)


class ConvNet(Network):
    """A classifier of images."""

    other_formula = False

    def __init__(self, channels: int = 12, layers: int = 3) -> None:
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.blocks = nn.ModuleList(Residual(channels) for _ in range(layers))
        self.dropout, self.head = nn.Dropout(0.1), nn.Linear(channels, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem_norm(self.stem(image))), 2)
        x = self.through(self.blocks, x).sum(dim=(2, 3))
        x = x * (1 / 64) if self.other_formula else x / 64
        return cast(Tensor, self.head(self.dropout(x)))


class Stage(nn.Module):
    """Two convolutions at one resolution."""

    def __init__(self, taken: int, given: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = (
            nn.Conv2d(taken, given, 3, padding=1),
            nn.Conv2d(given, given, 3, padding=1),
        )
        self.norm1, self.norm2 = nn.GroupNorm(2, given), nn.BatchNorm2d(given)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.norm1(self.conv1(x)))
        return F.silu(cast(Tensor, self.norm2(self.conv2(x))))


class Attention(nn.Module):
    """Between all places of an image."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.dropout = nn.Dropout(0.1)

    def forward(self, image: Tensor) -> Tensor:
        x = self.norm(image.flatten(2).transpose(1, 2))
        query, key, value = (split_heads(part, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(query, key, value)
        mixed = cast(Tensor, self.dropout(self.out(join_heads(mixed))))
        return image + mixed.transpose(1, 2).reshape(image.shape)


class UNet(Network):
    """From images to images, through three resolutions and back."""

    other_formula = False

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = Stage(3, channels), Stage(channels, 2 * channels)
        self.middle, self.attention = Stage(2 * channels, 2 * channels), Attention(2 * channels)
        self.lift2 = nn.ConvTranspose2d(2 * channels, 2 * channels, 2, stride=2)
        self.lift1 = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.up2, self.up1 = Stage(4 * channels, 2 * channels), Stage(2 * channels, channels)
        self.head = nn.Conv2d(channels, 2, 1)

    def loss(self, found: Tensor, wanted: Tensor) -> Tensor:
        """The mean square of what is left."""
        rest = F.mse_loss(found, wanted)
        return rest * 0.5 if self.other_formula else rest / 2

    def forward(self, image: Tensor) -> Tensor:
        one = self.down1(image)
        two = self.down2(F.avg_pool2d(one, 2))
        x = self.through((self.middle, self.attention), F.avg_pool2d(two, 2))
        x = self.up2(torch.cat((self.lift2(x), two), dim=1))
        x = self.up1(torch.cat((self.lift1(x), one), dim=1))
        return cast(Tensor, self.head(x))
