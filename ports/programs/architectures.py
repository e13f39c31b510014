"""The architectures of transformers that the suite uses, in sizes that take a fraction of a second."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """A model class of transformers with a small configuration."""

    config: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: str = "tokens"
    attention: str | None = "eager"
    """Which attention is asked for unless a run says otherwise; None: the library's choice."""
    size: int = 32
    """Of images."""
    classes: int = 0
    per_token: bool = True


def _decoder(**settings: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    return {**sizes, **settings}


def _encoder(**settings: Any) -> dict[str, Any]:
    sizes = {
        "vocab_size": 97,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    return {**sizes, **settings}


def _vision(**settings: Any) -> dict[str, Any]:
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
        "num_labels": 5,
    }
    return {**sizes, **settings}


def _gpt2(**settings: Any) -> dict[str, Any]:
    return {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **settings}


def _images(config: str, model: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture(config, model, settings, inputs="pixels", classes=5, **more)


def _masked(config: str, model: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture(config, model, settings, inputs="masked", **more)


ARCHITECTURES: dict[str, Architecture] = {
    # decoders
    "llama": Architecture("LlamaConfig", "LlamaForCausalLM", _decoder(num_key_value_heads=2)),
    "mistral": Architecture(
        "MistralConfig", "MistralForCausalLM", _decoder(num_key_value_heads=2, sliding_window=None)
    ),
    "qwen2": Architecture("Qwen2Config", "Qwen2ForCausalLM", _decoder(num_key_value_heads=2)),
    "gemma": Architecture("GemmaConfig", "GemmaForCausalLM", _decoder(num_key_value_heads=1, head_dim=8)),
    "phi": Architecture("PhiConfig", "PhiForCausalLM", _decoder(partial_rotary_factor=0.5)),
    "stablelm": Architecture(
        "StableLmConfig", "StableLmForCausalLM", _decoder(num_key_value_heads=2, partial_rotary_factor=0.5)
    ),
    "starcoder2": Architecture(
        "Starcoder2Config", "Starcoder2ForCausalLM", _decoder(num_key_value_heads=2, sliding_window=None)
    ),
    "olmo": Architecture("OlmoConfig", "OlmoForCausalLM", _decoder(num_key_value_heads=2)),
    "cohere": Architecture(
        "CohereConfig", "CohereForCausalLM", _decoder(num_key_value_heads=2, rope_theta=10000.0)
    ),
    "gpt2": Architecture("GPT2Config", "GPT2LMHeadModel", _gpt2()),
    "gpt_neo": Architecture(
        "GPTNeoConfig",
        "GPTNeoForCausalLM",
        {
            "vocab_size": 97,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 6,
        },
    ),
    "gpt_neox": Architecture("GPTNeoXConfig", "GPTNeoXForCausalLM", _decoder()),
    "gptj": Architecture("GPTJConfig", "GPTJForCausalLM", _gpt2(rotary_dim=4)),
    "codegen": Architecture("CodeGenConfig", "CodeGenForCausalLM", _gpt2(rotary_dim=4)),
    "opt": Architecture(
        "OPTConfig",
        "OPTForCausalLM",
        {
            "vocab_size": 97,
            "hidden_size": 32,
            "ffn_dim": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
            "pad_token_id": 0,
        },
    ),
    "bloom": Architecture(
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": 97, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    ),
    "falcon": Architecture(
        "FalconConfig",
        "FalconForCausalLM",
        {
            "vocab_size": 97,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "new_decoder_architecture": False,
            "multi_query": True,
        },
    ),
    "mpt": Architecture(
        "MptConfig",
        "MptForCausalLM",
        {"vocab_size": 97, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
    ),
    "mamba": Architecture(
        "MambaConfig",
        "MambaForCausalLM",
        {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
        attention=None,
    ),
    # encoders
    "bert": _masked("BertConfig", "BertForMaskedLM", _encoder()),
    "roberta": _masked("RobertaConfig", "RobertaForMaskedLM", _encoder()),
    "electra": _masked("ElectraConfig", "ElectraForMaskedLM", _encoder(embedding_size=16)),
    "albert": _masked("AlbertConfig", "AlbertForMaskedLM", _encoder(embedding_size=16)),
    "distilbert": _masked(
        "DistilBertConfig",
        "DistilBertForMaskedLM",
        {
            "vocab_size": 97,
            "dim": 32,
            "hidden_dim": 64,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "deberta_v2": _masked("DebertaV2Config", "DebertaV2ForMaskedLM", _encoder(), attention=None),
    "mpnet": _masked("MPNetConfig", "MPNetForMaskedLM", _encoder(), attention=None),
    # encoder and decoder
    "t5": Architecture(
        "T5Config",
        "T5ForConditionalGeneration",
        {"vocab_size": 97, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
        inputs="encoder_decoder",
        attention=None,
    ),
    "bart": Architecture(
        "BartConfig",
        "BartForConditionalGeneration",
        {
            "vocab_size": 97,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "max_position_embeddings": 64,
            "pad_token_id": 0,
        },
        inputs="encoder_decoder",
    ),
    # images and sound
    "vit": _images("ViTConfig", "ViTForImageClassification", _vision()),
    "deit": _images("DeiTConfig", "DeiTForImageClassification", _vision()),
    "beit": _images("BeitConfig", "BeitForImageClassification", _vision()),
    "dinov2": _images("Dinov2Config", "Dinov2ForImageClassification", _vision()),
    "swin": _images(
        "SwinConfig",
        "SwinForImageClassification",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
            "num_labels": 5,
        },
        attention=None,
    ),
    "convnext": _images(
        "ConvNextConfig",
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1], "num_labels": 5},
        attention=None,
    ),
    "resnet": _images(
        "ResNetConfig",
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1], "num_labels": 5},
        attention=None,
        size=64,
    ),
    "segformer": _images(
        "SegformerConfig",
        "SegformerForImageClassification",
        {
            "hidden_sizes": [8, 16, 16, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
            "num_labels": 5,
        },
        attention=None,
        size=64,
    ),
    "clip": Architecture(
        "CLIPConfig",
        "CLIPModel",
        {
            "text_config": {**_encoder(), "eos_token_id": 2, "bos_token_id": 1},
            "vision_config": {key: value for key, value in _vision().items() if key not in ("num_labels",)},
            "projection_dim": 16,
        },
        inputs="clip",
    ),
    "wav2vec2": Architecture(
        "Wav2Vec2Config",
        "Wav2Vec2ForCTC",
        {
            "vocab_size": 32,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "conv_dim": [16, 16],
            "conv_stride": [5, 4],
            "conv_kernel": [10, 8],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        inputs="waves",
    ),
    "whisper": Architecture(
        "WhisperConfig",
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 97,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_mel_bins": 16,
            "max_source_positions": 20,
            "max_target_positions": 32,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        inputs="mels",
    ),
}
