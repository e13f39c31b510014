"""Networks for images that timm, torchvision and transformers all have, with the same weights.

The libraries create the parts of these networks in the same order, so weights are taken by their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made
from ports.programs.program import Program, plain
from ports.programs.weights import fill

CLASSES = 5


def torchvision_network(name: str) -> nn.Module:
    """Small networks of torchvision."""
    from torchvision import models
    from torchvision.models.convnext import CNBlockConfig
    from torchvision.models.efficientnet import _efficientnet_conf

    create: dict[str, Callable[[], nn.Module]] = {
        "convnext": lambda: models.convnext.ConvNeXt(
            [
                CNBlockConfig(8, 16, 1),
                CNBlockConfig(16, 32, 1),
                CNBlockConfig(32, 64, 1),
                CNBlockConfig(64, None, 1),
            ],
            num_classes=CLASSES,
        ),
        "densenet": lambda: models.DenseNet(8, (2, 2, 2, 2), 16, num_classes=CLASSES),
        "mobilenet_v2": lambda: models.mobilenet_v2(num_classes=CLASSES, width_mult=0.35),
        "efficientnet": lambda: models.EfficientNet(
            _efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.5)[0],
            dropout=0.0,
            stochastic_depth_prob=0.0,
            num_classes=CLASSES,
        ),
        "swin": lambda: models.SwinTransformer(
            [4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=CLASSES, stochastic_depth_prob=0.0
        ),
        "vit": lambda: models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=CLASSES),
    }
    return create[name]()


def timm_network(name: str, fused: bool = False) -> nn.Module:
    """The same networks of timm."""
    import timm

    timm.layers.set_fused_attn(fused)
    norm: dict[str, Any] = {"norm_layer": lambda width, **rest: nn.LayerNorm(width, eps=1e-5)}
    create: dict[str, Callable[[], nn.Module]] = {
        "convnext": lambda: timm.models.convnext.ConvNeXt(
            depths=(1, 1, 1, 1), dims=(8, 16, 32, 64), num_classes=CLASSES
        ),
        "densenet": lambda: timm.models.densenet.DenseNet(
            growth_rate=8, block_config=(2, 2, 2, 2), num_classes=CLASSES
        ),
        "mobilenet_v2": lambda: timm.create_model("mobilenetv2_035", num_classes=CLASSES),
        "efficientnet": lambda: timm.models.efficientnet._gen_efficientnet(
            "efficientnet_b0", channel_multiplier=0.25, depth_multiplier=0.5, num_classes=CLASSES
        ),
        "swin": lambda: timm.models.SwinTransformer(
            img_size=32,
            patch_size=4,
            embed_dim=16,
            depths=(2, 2),
            num_heads=(2, 4),
            window_size=4,
            num_classes=CLASSES,
            drop_path_rate=0.0,
            **norm,
        ),
        "vit": lambda: timm.models.VisionTransformer(
            img_size=32, patch_size=8, embed_dim=32, depth=2, num_heads=4, mlp_ratio=2.0, num_classes=CLASSES
        ),
    }
    return create[name]()


def transformers_network(name: str) -> nn.Module:
    """The same networks of transformers."""
    model, _ = made(name, settings={"layer_norm_eps": 1e-6})
    return model


# Parts of timm that come earlier than in torchvision, and the part that they follow there.
AFTER = {
    "pos_embed": "patch_embed.proj.bias",
    "layers.1.downsample.norm.weight": "layers.1.downsample.reduction.weight",
    "layers.1.downsample.norm.bias": "layers.1.downsample.norm.weight",
}


def kept(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters and running statistics in the order of torchvision."""
    tensors = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith(("num_batches_tracked", "relative_position_index"))
    }
    names = list(tensors)
    for name, before in AFTER.items():
        if name in tensors:
            names.remove(name)
            names.insert(names.index(before) + 1, name)
    return [(name, tensors[name]) for name in names]


def take_in_order(model: nn.Module, given: nn.Module) -> None:
    """Copies weights by their place."""
    ours, theirs = kept(model), kept(given)
    with torch.no_grad():
        for (name, tensor), (other, value) in zip(ours, theirs, strict=True):
            if tensor.numel() != value.numel():
                raise ValueError(
                    f"{name}: expected {tuple(tensor.shape)}, found {other} {tuple(value.shape)}"
                )
            tensor.copy_(value.reshape(tensor.shape))


def build(
    family: str,
    name: str,
    library: str = "torchvision",
    train: bool = False,
    fused: bool = False,
    channels_last: bool = False,
    dtype: str | None = None,
) -> Program:
    """`images/{network}`, of a library."""
    original = transformers_network(name) if name == "convnext" else torchvision_network(name)
    if name != "convnext":
        fill(original)
    model: Any = original
    if library == "timm":
        model = timm_network(name, fused)
    elif library == "torchvision":
        model = torchvision_network(name)
    if model is not original:
        take_in_order(model, original)
    model.train(train)
    images = batches.pixels(32 if name in ("swin", "vit") else 64)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    if dtype is not None:
        model, images = model.to(getattr(torch, dtype)), images.to(getattr(torch, dtype))

    def forward() -> Tensor:
        found = model(images)
        return found if isinstance(found, Tensor) else found.logits

    return plain(model, forward, batches.classes(CLASSES))
