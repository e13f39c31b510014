"""Unseen bugs of decoders in transformers."""

from __future__ import annotations

from ports.runs import Edit, Where, run
from ports.unseen.library_bug import bug, fused, release, written

EXPERTS = "transformers.integrations.moe"
LOOPED = (("experts grouped and looped", run("hf/mixtral", experts="eager")),)

BUGS = (
    bug(
        "mixtral",
        "routing-not-normalised",
        (
            "router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
            "router_top_value = router_top_value",
        ),
        Edit(EXPERTS, "* sample_weights_g.unsqueeze(-1)", "* (sample_weights_g).unsqueeze(-1)"),
        goldens=release("mixtral") + written("mixtral") + fused("mixtral"),
        elsewhere=(
            ("*.block_sparse_moe", "Tensor.__itruediv__"),
            ("*.block_sparse_moe", "Tensor.sum"),
            ("*.block_sparse_moe", "Tensor.__mul__"),
            ("layers.*.mixture", "Tensor.softmax"),
        ),
    ),
    bug(
        "mixtral",
        "experts-gate-and-up-swapped",
        Edit(EXPERTS, "return self.act_fn(gate) * up", "return self.act_fn(up) * gate"),
        goldens=release("mixtral") + written("mixtral") + LOOPED,
        where=Where((("model.layers.*.mlp.experts.act_fn", "*"),)),
        elsewhere=(
            ("*.experts.*.act_fn", "*"),
            ("*.experts.?", "Tensor.__mul__"),
            ("*.mlp.experts", "Tensor.__mul__"),
            ("layers.*.mixture", "Functional.silu"),
            ("layers.*.mixture", "Tensor.__mul__"),
        ),
    ),
    bug(
        "mixtral",
        "worst-experts-chosen",
        (
            "torch.topk(router_probs, self.top_k, dim=-1)",
            "torch.topk(router_probs, self.top_k, dim=-1, largest=False)",
        ),
        goldens=release("mixtral") + written("mixtral"),
        elsewhere=(("*.block_sparse_moe", "Torch.topk"), ("layers.*.mixture", "Tensor.topk")),
    ),
    bug(
        "qwen2_moe",
        "shared-gate-not-squashed",
        (
            "F.sigmoid(self.shared_expert_gate(hidden_states_reshaped))",
            "self.shared_expert_gate(hidden_states_reshaped)",
        ),
        goldens=release("qwen2_moe"),
        elsewhere=(("*.mlp", "*.sigmoid"), ("*.mlp", "Tensor.__mul__")),
    ),
    bug(
        "biogpt",
        "embeddings-not-scaled",
        ("super().forward(input_ids) * self.embed_scale", "super().forward(input_ids) * 1.0"),
        goldens=release("biogpt") + fused("biogpt"),
        elsewhere=(("biogpt", "Tensor.__mul__"),),
    ),
    bug(
        "gpt_bigcode",
        "key-and-value-swapped",
        ("                query, key, value = (\n", "                query, value, key = (\n"),
        goldens=release("gpt_bigcode") + fused("gpt_bigcode"),
        where=Where(after=1),
        elsewhere=(("*.attn", "Tensor.split"),),
    ),
    bug(
        "persimmon",
        "query-with-norm-of-keys",
        ("query_states = self.q_layernorm(query_states)", "query_states = self.k_layernorm(query_states)"),
        goldens=release("persimmon") + fused("persimmon"),
        elsewhere=(("*.q_layernorm", "*"),),
    ),
    bug(
        "rwkv",
        "decay-without-exponential",
        ("time_decay = -torch.exp(time_decay)", "time_decay = -torch.abs(time_decay)"),
        goldens=release("rwkv"),
        elsewhere=(("*.attention", "Tensor.__neg__"),),
    ),
    bug(
        "rwkv",
        "value-mixed-as-key",
        (
            "value = hidden * self.time_mix_value + shifted * (1 - self.time_mix_value)",
            "value = hidden * self.time_mix_key + shifted * (1 - self.time_mix_key)",
        ),
        goldens=release("rwkv"),
    ),
    bug(
        "phi3",
        "gate-and-up-swapped",
        ("up_states * self.activation_fn(gate)", "gate * self.activation_fn(up_states)"),
        goldens=fused("phi3"),
        where=Where((("model.layers.*.mlp.activation_fn", "*"),)),
    ),
    bug(
        "phi3",
        "keys-from-wrong-rows",
        (
            "qkv[..., query_pos : query_pos + self.num_key_value_heads * self.head_dim]",
            "qkv[..., query_pos - 1 : query_pos + self.num_key_value_heads * self.head_dim - 1]",
        ),
        goldens=fused("phi3"),
    ),
    bug(
        "qwen3",
        "key-norm-missing",
        (
            "self.k_norm(self.k_proj(hidden_states).view(hidden_shape)).transpose(1, 2)",
            "self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
        ),
        goldens=fused("qwen3"),
        where=Where(golden=(("*.k_norm", "*"),)),
    ),
    bug(
        "qwen3",
        "norm-eps",
        ("torch.rsqrt(variance + self.variance_epsilon)", "torch.rsqrt(variance + 1e-1)"),
        goldens=fused("qwen3"),
    ),
    bug(
        "gemma2",
        "scores-not-capped-by-tanh",
        ("attn_weights = torch.tanh(attn_weights)", "attn_weights = attn_weights.clamp(-1, 1)"),
    ),
    bug(
        "gemma2",
        "scale-of-head",
        ("self.scaling = config.query_pre_attn_scalar**-0.5", "self.scaling = self.head_dim**-0.5"),
        ("key_states.transpose(2, 3)) * scaling", "key_states.transpose(2, 3)) * (scaling)"),
    ),
    bug(
        "gemma2",
        "norm-after-feed-forward-missing",
        (
            "hidden_states = self.post_feedforward_layernorm(hidden_states)",
            "hidden_states = hidden_states",
        ),
        where=Where(golden=(("*.post_feedforward_layernorm", "*"),), after=1),
    ),
    bug(
        "olmo2",
        "residual-before-norm",
        (
            "hidden_states = self.post_attention_layernorm(hidden_states)\n"
            "        hidden_states = residual + hidden_states",
            "hidden_states = residual + hidden_states\n"
            "        hidden_states = self.post_attention_layernorm(hidden_states)",
        ),
        goldens=fused("olmo2"),
    ),
    bug(
        "granite",
        "residual-not-scaled",
        (
            "residual + hidden_states * self.residual_multiplier",
            "residual + hidden_states * 1.0",
        ),
        goldens=fused("granite"),
        nth=1,
    ),
    bug(
        "granite",
        "logits-not-divided",
        ("logits = logits / self.config.logits_scaling", "logits = logits / 1.0"),
        goldens=fused("granite"),
    ),
    bug(
        "mamba",
        "state-not-discretised",
        (
            "discrete_B = dt[:, :, :, None] * B[:, None, :, :].float()",
            "discrete_B = 1.0 * B[:, None, :, :].float()",
        ),
        goldens=release("mamba") + written("mamba"),
        where=Where(after=1),
    ),
    bug(
        "mamba",
        "step-without-bias",
        ("dt = dt + delta_bias.to(dt.dtype)[..., None]", "dt = dt + 0.0"),
        goldens=written("mamba"),
        elsewhere=(("mixers.*.step", "*"),),
    ),
    bug(
        "t5_gated",
        "activation-not-tanh",
        ("self.act = ACT2FN[config.dense_act_fn]", 'self.act = ACT2FN["gelu"]'),
        goldens=release("t5_gated") + written("t5_gated"),
        where=Where((("*.DenseReluDense.act", "*"),), lines=False),
        elsewhere=(("?ncoder.layers.?", "Functional.gelu"), ("?ecoder.layers.?", "Functional.gelu")),
        nth=1,
    ),
    bug(
        "t5_gated",
        "far-buckets-by-wrong-base",
        (
            "torch.log(relative_position.float() / max_exact)\n"
            "            / math.log(max_distance / max_exact)",
            "torch.log((relative_position.float()) / max_exact)\n            / math.log(max_distance)",
        ),
        goldens=release("t5_gated") + written("t5_gated"),
        where=Where(after=1),
        elsewhere=(
            ("*.SelfAttention", "Torch.log"),
            ("*.SelfAttention", "Tensor.__truediv__"),
            ("*.SelfAttention", "Tensor.__mul__"),
            ("??coder.table", "*"),
            ("??coder", "Torch.tensor"),
        ),
    ),
    bug(
        "mbart",
        "norm-after-encoder-missing",
        ("hidden_states = self.layer_norm(hidden_states)", "hidden_states = hidden_states"),
        goldens=release("mbart") + fused("mbart"),
        where=Where(
            (
                ("model.decoder.layers.*.encoder_attn.k_proj", "*"),
                ("model.decoder.layers.*.encoder_attn.v_proj", "*"),
            ),
            (("model.encoder.layer_norm", "*"),),
        ),
    ),
)
