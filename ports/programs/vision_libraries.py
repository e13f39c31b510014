"""Vision models of timm and torchvision, with the weights of transformers' or of each other's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made
from ports.programs.program import Program, plain
from ports.programs.weights import fill


def timm_vit(**options: Any) -> nn.Module:
    """timm's vision transformer with the weights of `hf/vit`."""
    import timm

    timm.layers.set_fused_attn(options.pop("fused", False))
    original, _ = made("vit")
    given = original.state_dict()
    model = timm.models.vision_transformer.VisionTransformer(
        img_size=32,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        mlp_ratio=2.0,
        num_classes=5,
        norm_layer=lambda width, **rest: nn.LayerNorm(width, eps=1e-12, **rest),
        **options,
    )
    mine = {
        "cls_token": given["vit.embeddings.cls_token"],
        "pos_embed": given["vit.embeddings.position_embeddings"],
    }
    names = {
        "patch_embed.proj": "vit.embeddings.patch_embeddings.projection",
        "norm": "vit.layernorm",
        "head": "classifier",
    }
    for number in range(2):
        theirs, ours = f"vit.layers.{number}.", f"blocks.{number}."
        names |= {
            f"{ours}norm1": f"{theirs}layernorm_before",
            f"{ours}norm2": f"{theirs}layernorm_after",
            f"{ours}attn.proj": f"{theirs}attention.o_proj",
            f"{ours}mlp.fc1": f"{theirs}mlp.fc1",
            f"{ours}mlp.fc2": f"{theirs}mlp.fc2",
        }
        for kind in ("weight", "bias"):
            parts = [given[f"{theirs}attention.{name}_proj.{kind}"] for name in "qkv"]
            mine[f"{ours}attn.qkv.{kind}"] = torch.cat(parts)
    for own, name in names.items():
        mine |= {f"{own}.{kind}": given[f"{name}.{kind}"] for kind in ("weight", "bias")}
    model.load_state_dict(mine)
    return model


# Parameters of timm and of torchvision have the same names in these.
SAME_NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet": ("resnet18", {"num_classes": 5}),
    "resnet50": ("resnet50", {"num_classes": 5}),
}


def build(
    family: str,
    name: str,
    train: bool = False,
    channels_last: bool = False,
    folded: bool = False,
    dtype: str | None = None,
    **options: Any,
) -> Program:
    """`timm/{model}` and `torchvision/{model}`."""
    size = 32 if name == "vit" else 64
    if (family, name) == ("timm", "vit"):
        model: Any = timm_vit(**options)
    else:
        kind, settings = SAME_NAMES[name]
        if family == "timm":
            import timm

            model = timm.create_model(kind, pretrained=False, zero_init_last=False, **settings, **options)
        else:
            import torchvision

            model = getattr(torchvision.models, kind)(weights=None, **settings, **options)
        fill(model)
    model.train(train)
    images, wanted = batches.pixels(size), batches.classes(5)
    if folded:
        from torch.fx.experimental.optimization import fuse

        model = fuse(model)
    if channels_last:
        model, images = (
            model.to(memory_format=torch.channels_last),
            images.to(memory_format=torch.channels_last),
        )
    if dtype is not None:
        model, images = model.to(getattr(torch, dtype)), images.to(getattr(torch, dtype))

    def forward() -> Tensor:
        found: Tensor = model(images)
        return found

    return plain(model, forward, wanted)
