"""Hand-written models with the weights of the library's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ports.handwritten.contrastive import Contrastive
from ports.handwritten.encoders import Bert, Vit
from ports.handwritten.gpt2 import GPT2
from ports.handwritten.llama import Llama
from ports.handwritten.mixture import Mixtral
from ports.handwritten.selective_scan import Mamba
from ports.handwritten.text_to_text import TextToText
from ports.programs.library_models import inputs_of, made, of_tokens, wanted_of
from ports.programs.program import Program, plain


def llama(config: Any, **options: Any) -> nn.Module:
    return Llama(
        config.vocab_size,
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
        **options,
    )


def gpt2(config: Any, **options: Any) -> nn.Module:
    return GPT2(
        config.vocab_size, config.n_embd, config.n_layer, config.n_head, config.n_positions, **options
    )


def bert(config: Any, **options: Any) -> nn.Module:
    return Bert(
        config.vocab_size,
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.max_position_embeddings,
        **options,
    )


def vit(config: Any, **options: Any) -> nn.Module:
    return Vit(
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.image_size,
        config.patch_size,
        config.num_labels,
        **options,
    )


def mixtral(config: Any) -> nn.Module:
    return Mixtral(
        config.vocab_size,
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.num_key_value_heads,
        config.num_local_experts,
        config.num_experts_per_tok,
        config.rms_norm_eps,
    )


def mamba(config: Any) -> nn.Module:
    return Mamba(
        config.vocab_size,
        config.hidden_size,
        config.num_hidden_layers,
        config.intermediate_size,
        config.state_size,
        config.time_step_rank,
        config.conv_kernel,
        config.layer_norm_epsilon,
    )


def t5_gated(config: Any) -> nn.Module:
    return TextToText(
        config.vocab_size,
        config.d_model,
        config.d_ff,
        config.num_layers,
        config.num_heads,
        config.d_kv,
        config.layer_norm_epsilon,
        config.relative_attention_num_buckets,
        config.relative_attention_max_distance,
    )


def clip(config: Any) -> nn.Module:
    text, vision = config.text_config, config.vision_config
    return Contrastive(
        text.vocab_size,
        text.hidden_size,
        text.intermediate_size,
        text.num_hidden_layers,
        text.num_attention_heads,
        text.max_position_embeddings,
        vision.patch_size,
        (vision.image_size // vision.patch_size) ** 2,
        config.projection_dim,
    )


MADE: dict[str, Callable[..., nn.Module]] = {
    "llama": llama,
    "gpt2": gpt2,
    "bert": bert,
    "vit": vit,
    "mixtral": mixtral,
    "mamba": mamba,
    "t5_gated": t5_gated,
    "clip": clip,
}


def build(
    family: str, name: str, autocast: str | None = None, dtype: str | None = None, **options: Any
) -> Program:
    """`hand/{architecture}`."""
    original, architecture = made(name)
    model: Any = MADE[name](original.config, **options).eval()
    model.take({key: value.detach().clone() for key, value in original.state_dict().items()})
    inputs = inputs_of(architecture)
    arguments = list(inputs.values())
    if dtype is not None:
        model.to(getattr(torch, dtype))
        arguments = [one.to(getattr(torch, dtype)) if one.is_floating_point() else one for one in arguments]

    def forward() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast is not None):
            found: Tensor = model(*arguments)
        return found

    program = plain(model, forward, wanted_of(architecture, inputs))
    return of_tokens(program, inputs["attention_mask"]) if "attention_mask" in inputs else program
