"""Further architectures of transformers, of the unseen cases alone, in the same small sizes."""

from __future__ import annotations

from typing import Any

from ports.programs.architectures import Architecture

_TEXT: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2}
_VISION: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
}
_BOTH: dict[str, Any] = {
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
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
_GPT2: dict[str, Any] = {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
_EXPERTS: dict[str, Any] = {"num_experts_per_tok": 2, "router_aux_loss_coef": 0.0, "sliding_window": None}
_SPEECH: dict[str, Any] = {
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
}


def _decoder(config: str, model: str, attention: str | None = "eager", **settings: Any) -> Architecture:
    return Architecture(config, model, {**_DECODER, **settings}, attention=attention)


def _encoder(config: str, model: str, attention: str | None = None, **settings: Any) -> Architecture:
    return Architecture(config, model, {**_TEXT, **settings}, inputs="masked", attention=attention)


def _both(config: str, model: str, attention: str | None = "eager", **settings: Any) -> Architecture:
    return Architecture(config, model, {**_BOTH, **settings}, inputs="encoder_decoder", attention=attention)


def _images(config: str, model: str, settings: dict[str, Any], **more: Any) -> Architecture:
    return Architecture(
        config,
        model,
        {"num_labels": 5, **settings},
        inputs="pixels",
        classes=5,
        **{"attention": None, **more},
    )


FURTHER: dict[str, Architecture] = {
    # decoders
    "mixtral": _decoder(
        "MixtralConfig", "MixtralForCausalLM", num_local_experts=4, rope_theta=10000.0, **_EXPERTS
    ),
    "qwen2_moe": _decoder(
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        num_experts=4,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        norm_topk_prob=True,
        **_EXPERTS,
    ),
    "persimmon": _decoder(
        "PersimmonConfig", "PersimmonForCausalLM", partial_rotary_factor=0.5, rope_theta=10000.0
    ),
    "biogpt": _decoder("BioGptConfig", "BioGptForCausalLM"),
    "gpt_bigcode": Architecture("GPTBigCodeConfig", "GPTBigCodeForCausalLM", {**_GPT2, "multi_query": True}),
    "xglm": Architecture(
        "XGLMConfig",
        "XGLMForCausalLM",
        {
            "vocab_size": 97,
            "d_model": 32,
            "ffn_dim": 64,
            "num_layers": 2,
            "attention_heads": 4,
            "pad_token_id": 0,
        },
        attention=None,
    ),
    "rwkv": Architecture(
        "RwkvConfig",
        "RwkvForCausalLM",
        {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "context_length": 64},
        attention=None,
    ),
    "recurrent_gemma": Architecture(
        "RecurrentGemmaConfig",
        "RecurrentGemmaForCausalLM",
        {
            **_DECODER,
            "num_hidden_layers": 3,
            "num_key_value_heads": 1,
            "head_dim": 8,
            "lru_width": 32,
            "attention_window_size": 64,
        },
        attention=None,
    ),
    # decoders of the newest release alone
    "phi3": _decoder("Phi3Config", "Phi3ForCausalLM"),
    "qwen3": _decoder("Qwen3Config", "Qwen3ForCausalLM", head_dim=8),
    "gemma2": _decoder(
        "Gemma2Config",
        "Gemma2ForCausalLM",
        head_dim=8,
        query_pre_attn_scalar=16,
        sliding_window=5,
        attn_logit_softcapping=3.0,
    ),
    "olmo2": _decoder("Olmo2Config", "Olmo2ForCausalLM"),
    "granite": _decoder(
        "GraniteConfig",
        "GraniteForCausalLM",
        embedding_multiplier=3.0,
        logits_scaling=2.0,
        residual_multiplier=0.5,
        attention_multiplier=0.25,
    ),
    "mamba2": Architecture(
        "Mamba2Config",
        "Mamba2ForCausalLM",
        {
            "vocab_size": 97,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "state_size": 8,
            "head_dim": 8,
            "num_heads": 8,
            "n_groups": 2,
            "chunk_size": 4,
        },
        attention=None,
    ),
    # encoders
    "roformer": _encoder("RoFormerConfig", "RoFormerForMaskedLM", rotary_value=False),
    "esm": _encoder(
        "EsmConfig", "EsmForMaskedLM", position_embedding_type="rotary", mask_token_id=3, token_dropout=True
    ),
    "fnet": Architecture(
        "FNetConfig",
        "FNetForMaskedLM",
        {key: value for key, value in _TEXT.items() if key != "num_attention_heads"},
        inputs="words",
        attention=None,
    ),
    "xlnet": Architecture(
        "XLNetConfig",
        "XLNetLMHeadModel",
        {"vocab_size": 97, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "pad_token_id": 0},
        attention=None,
    ),
    "modernbert": _encoder(
        "ModernBertConfig",
        "ModernBertForMaskedLM",
        "eager",
        global_attn_every_n_layers=2,
        local_attention=8,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
    # encoder and decoder
    "t5_gated": Architecture(
        "T5Config",
        "T5ForConditionalGeneration",
        {
            "vocab_size": 97,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "feed_forward_proj": "gated-gelu",
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 16,
        },
        inputs="encoder_decoder",
        attention=None,
    ),
    "marian": _both("MarianConfig", "MarianMTModel", scale_embedding=True, activation_function="swish"),
    "mbart": _both("MBartConfig", "MBartForConditionalGeneration"),
    # images, films and sound
    "convnextv2": _images(
        "ConvNextV2Config",
        "ConvNextV2ForImageClassification",
        {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1]},
    ),
    "swinv2": _images(
        "Swinv2Config",
        "Swinv2ForImageClassification",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
    ),
    "mobilenet_v2": _images(
        "MobileNetV2Config", "MobileNetV2ForImageClassification", {"depth_multiplier": 0.35}, size=64
    ),
    "regnet": _images(
        "RegNetConfig",
        "RegNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 1, 1], "groups_width": 8},
        size=64,
    ),
    "pvt_v2": _images(
        "PvtV2Config",
        "PvtV2ForImageClassification",
        {
            "image_size": 64,
            "hidden_sizes": [8, 16, 16, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 4],
        },
        size=64,
    ),
    "yolos": Architecture(
        "YolosConfig",
        "YolosForObjectDetection",
        {**_VISION, "image_size": [32, 32], "num_detection_tokens": 5},
        inputs="pixels",
    ),
    "siglip": Architecture(
        "SiglipConfig",
        "SiglipModel",
        {
            "text_config": {**_TEXT, "eos_token_id": 2, "bos_token_id": 1},
            "vision_config": {key: value for key, value in _VISION.items() if key != "num_labels"},
        },
        inputs="clip",
        attention="eager",
    ),
    "videomae": Architecture(
        "VideoMAEConfig",
        "VideoMAEForVideoClassification",
        {**_VISION, "num_frames": 4, "tubelet_size": 2},
        inputs="films",
        classes=5,
    ),
    "ast": Architecture(
        "ASTConfig",
        "ASTForAudioClassification",
        {**_VISION, "num_mel_bins": 16, "max_length": 40, "frequency_stride": 4, "time_stride": 6},
        inputs="spectrograms",
        classes=5,
    ),
    "hubert": Architecture("HubertConfig", "HubertForCTC", _SPEECH, inputs="waves", attention="eager"),
    "wavlm": Architecture(
        "WavLMConfig", "WavLMForCTC", {**_SPEECH, "num_buckets": 16}, inputs="waves", attention=None
    ),
    "detr": Architecture(
        "DetrConfig",
        "DetrForObjectDetection",
        {
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
            "num_queries": 6,
            "num_labels": 5,
            "backbone": None,
            "use_timm_backbone": False,
            "use_pretrained_backbone": False,
            "backbone_config": {
                "model_type": "resnet",
                "embedding_size": 8,
                "hidden_sizes": [8, 16, 16, 32],
                "depths": [1, 1, 1, 1],
                "out_features": ["stage4"],
            },
        },
        inputs="pixels",
        size=64,
    ),
}

# Names of parameters that releases spell differently, by architecture, as the newer one spells them.
FURTHER_RENAMED: dict[str, tuple[tuple[str, str], ...]] = {
    "mixtral": ((r"\.block_sparse_moe\.", ".mlp."),),
    "videomae": (
        (r"\.([qv])_bias$", r".\1_proj.bias"),
        (r"\.query\.bias$", ".q_proj.bias"),
        (r"\.value\.bias$", ".v_proj.bias"),
    ),
    # The layers of the spectrogram transformer are those of the vision transformer.
    "ast": ((r"^audio_spectrogram_transformer\.", "vit."),),
    "yolos": ((r"^vit\.encoder\.mid_position", "vit.encoder.interpolation.mid_position"),),
    "detr": (
        (r"\.backbone\.conv_encoder\.", ".backbone."),
        (r"\.(self_attn|encoder_attn)\.out_proj\.", r".\1.o_proj."),
        (r"(layers\.\d+)\.(fc[12])\.", r"\1.mlp.\2."),
    ),
}
