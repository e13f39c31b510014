"""Models of transformers, of any release: small configurations, random weights."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.architectures import ARCHITECTURES, Architecture
from ports.programs.further_architectures import FURTHER, FURTHER_RENAMED
from ports.programs.program import Program, Results, plain
from ports.programs.weights import drawn, fill, fill_experts

# Names of parameters that releases spell differently, as the newer one spells them.
RENAMED: tuple[tuple[str, str], ...] = (
    (r"^embed_out\.", "lm_head."),
    (r"^segformer\.encoder\.(patch_embeddings|layer_norm)\.(\d+)\.", r"segformer.stages.\2.\1."),
    (r"^segformer\.encoder\.block\.(\d+)\.(\d+)\.", r"segformer.stages.\1.blocks.\2."),
    (r"^(segformer.*)\.attention\.self\.sr\.", r"\1.attention.sequence_reduction.sequence_reduction."),
    (r"^(segformer.*)\.attention\.self\.layer_norm\.", r"\1.attention.sequence_reduction.layer_norm."),
    (r"^(segformer.*)\.layer_norm_1\.", r"\1.layernorm_before."),
    (r"^(segformer.*)\.layer_norm_2\.", r"\1.layernorm_after."),
    (r"^(segformer.*)\.mlp\.dense([12])\.", r"\1.mlp.fc\2."),
    (r"^(vit|deit|beit)\.encoder\.layer\.", r"\1.layers."),
    (r"^((?:vit|deit|beit|dinov2|swin|segformer).*)\.attention\.output\.dense\.", r"\1.attention.o_proj."),
    (r"^((?:vit|deit|beit|swin).*)\.intermediate\.dense\.", r"\1.mlp.fc1."),
    (r"^((?:vit|deit|beit|swin).*)\.output\.dense\.", r"\1.mlp.fc2."),
    (r"^(swin.*)\.attention\.self\.relative", r"\1.attention.relative_position_bias.relative"),
    (r"^((?:vit|deit|beit|dinov2|swin|segformer).*\.attention)\.(?:attention|self)\.query\.", r"\1.q_proj."),
    (r"^((?:vit|deit|beit|dinov2|swin|segformer).*\.attention)\.(?:attention|self)\.key\.", r"\1.k_proj."),
    (r"^((?:vit|deit|beit|dinov2|swin|segformer).*\.attention)\.(?:attention|self)\.value\.", r"\1.v_proj."),
)


def canonical(name: str, architecture: str = "") -> str:
    """A parameter's name in the newest release."""
    for pattern, replacement in (*FURTHER_RENAMED.get(architecture, ()), *RENAMED):
        name = re.sub(pattern, replacement, name)
    return name


def configured(architecture: Architecture, settings: dict[str, Any] | None = None) -> Any:
    """The small configuration."""
    return getattr(transformers, architecture.config)(**{**architecture.settings, **(settings or {})})


def made(
    name: str,
    attention: str | None = None,
    settings: dict[str, Any] | None = None,
    experts: str | None = None,
) -> tuple[nn.Module, Architecture]:
    """A model with its weights."""
    architecture = {**ARCHITECTURES, **FURTHER}[name]
    config = configured(architecture, settings)
    kind = getattr(transformers, architecture.model)
    chosen = attention or architecture.attention
    options = {} if chosen is None else {"attn_implementation": chosen}
    if experts is not None:
        options["experts_implementation"] = experts
    model: nn.Module = kind._from_config(config, **options)
    fill(model, lambda parameter: canonical(parameter, name))
    fill_experts(model)
    tie = getattr(model, "tie_weights", None)
    if tie is not None:
        tie()
    return model.eval(), architecture


def inputs_of(architecture: Architecture, padded: bool | None = None, length: int = 12) -> dict[str, Tensor]:
    """The batch by the names of the model's arguments."""
    kind = architecture.inputs
    if kind in ("tokens", "words", "masked", "encoder_decoder"):
        ids = batches.tokens(97, length)
        found = {"input_ids": ids}
        if padded or (padded is None and kind not in ("tokens", "words")):
            found["attention_mask"] = batches.padding(ids)
        if kind == "encoder_decoder":
            found["decoder_input_ids"] = batches.tokens(97, 9, seed=5)
        return found
    if kind == "pixels":
        return {"pixel_values": batches.pixels(architecture.size)}
    if kind == "clip":
        ids = batches.tokens(97, length)
        return {"input_ids": ids, "pixel_values": batches.pixels(architecture.size)}
    if kind == "waves":
        return {"input_values": drawn("waves", (2, 800))}
    if kind == "films":
        return {"pixel_values": drawn("films", (2, 4, 3, architecture.size, architecture.size))}
    if kind == "spectrograms":
        return {"input_values": drawn("spectrograms", (2, 40, 16))}
    if kind == "mels":
        mels = drawn("mels", (2, 16, 40))
        return {"input_features": mels, "decoder_input_ids": batches.tokens(97, 9, seed=5)}
    raise ValueError(f"{kind}: no such kind of inputs")


def output_of(found: Any) -> Tensor:
    """The result that a script looks at."""
    boxes = getattr(found, "pred_boxes", None)
    if boxes is not None:
        return torch.cat([found.logits, boxes], dim=-1)
    for name in ("logits", "logits_per_image", "last_hidden_state"):
        value = getattr(found, name, None)
        if isinstance(value, Tensor):
            return value
    raise ValueError(f"{type(found).__name__}: no known result")


def build(
    family: str,
    name: str,
    attention: str | None = None,
    dtype: str | None = None,
    autocast: str | None = None,
    padded: bool | None = None,
    settings: dict[str, Any] | None = None,
    labels: bool = False,
    length: int = 12,
    experts: str | None = None,
) -> Program:
    """`hf/{architecture}`: one batch through the model of the library."""
    model, architecture = made(name, attention, settings, experts)
    inputs = inputs_of(architecture, padded, length)
    if dtype is not None:
        model.to(getattr(torch, dtype))
        inputs = {
            key: value.to(getattr(torch, dtype)) if value.is_floating_point() else value
            for key, value in inputs.items()
        }
    context = (
        torch.autocast("cpu", getattr(torch, autocast)) if autocast is not None else contextlib.nullcontext()
    )
    extra = {"use_cache": False} if architecture.inputs in ("tokens", "encoder_decoder", "mels") else {}
    if labels:
        wanted_ids = inputs["input_ids"].clone()
        if "attention_mask" in inputs:
            wanted_ids[inputs["attention_mask"] == 0] = -100

        def own_loss(backward: bool) -> Results:
            with context, torch.set_grad_enabled(backward):
                found = model(**inputs, **extra, labels=wanted_ids)
            if backward:
                found.loss.backward()
            return {"output": found.logits, "loss": found.loss}

        return Program(model, own_loss)

    def forward() -> Tensor:
        with context:
            return output_of(model(**inputs, **extra))

    program = plain(model, forward, wanted_of(architecture, inputs))
    mask = inputs.get("attention_mask")
    return program if mask is None or not architecture.per_token else of_tokens(program, mask)


def of_tokens(program: Program, mask: Tensor) -> Program:
    """The program with its output zero at padding, where releases may compute anything."""

    def step(backward: bool) -> Results:
        found = program.step(backward)
        with torch._C.DisableTorchFunction():
            if found["output"].shape[:2] == mask.shape:
                found["output"] = found["output"].detach() * mask[..., None]
        return found

    return Program(program.model, step)


def wanted_of(architecture: Architecture, inputs: dict[str, Tensor]) -> Tensor | None:
    """Labels for the loss of the script."""
    if architecture.inputs in ("tokens", "words", "masked") and architecture.per_token:
        wanted = batches.tokens(97, inputs["input_ids"].shape[1], seed=7)
        mask = inputs.get("attention_mask")
        return wanted if mask is None else wanted.masked_fill(mask == 0, -100)
    if architecture.classes:
        return batches.classes(architecture.classes)
    return None
