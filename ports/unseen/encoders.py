"""Unseen bugs of encoders of text and sound, and of models of texts and images."""

from __future__ import annotations

from ports.runs import Where
from ports.unseen.library_bug import bug, fused, release, written

BUGS = (
    bug(
        "roformer",
        "sine-and-cosine-swapped",
        ("sin, cos = sinusoidal_pos.chunk(2, dim=-1)", "cos, sin = sinusoidal_pos.chunk(2, dim=-1)"),
        goldens=release("roformer"),
        # The lines that put the two into the order of a head follow.
        where=Where(after=4),
        elsewhere=(("*.self", "Tensor.chunk"),),
    ),
    bug(
        "roformer",
        "keys-rotated-backwards",
        (
            "torch.stack([-key_layer[..., 1::2], key_layer[..., ::2]], dim=-1)",
            "torch.stack([key_layer[..., 1::2], -key_layer[..., ::2]], dim=-1)",
        ),
        goldens=release("roformer"),
    ),
    bug(
        "xlnet",
        "relative-shift-off-by-one",
        ("x = x[:, :, 1:, :]", "x = x[:, :, :-1, :]"),
        goldens=release("xlnet"),
        elsewhere=(("*.rel_attn", "Tensor.__getitem__"),),
    ),
    bug(
        "xlnet",
        "content-bias-for-positions",
        ("q_head + self.r_r_bias", "q_head + self.r_w_bias"),
        goldens=release("xlnet"),
    ),
    bug(
        "esm",
        "share-of-masked-tokens-ignored",
        (
            "(embeddings * (1 - mask_ratio_train) / (1 - mask_ratio_observed)[:, None, None])",
            "(embeddings / (1 - mask_ratio_observed)[:, None, None])",
        ),
        goldens=release("esm"),
        elsewhere=(("esm.embeddings", "Tensor.__mul__"), ("esm.embeddings", "Tensor.__truediv__")),
    ),
    bug(
        "esm",
        "queries-not-scaled",
        ("query_layer * self.attention_head_size**-0.5", "query_layer * 1.0"),
        goldens=release("esm"),
        elsewhere=(("*.attention.self", "Tensor.__mul__"),),
    ),
    bug(
        "fnet",
        "magnitude-for-real-part",
        (
            "outputs = self.fourier_transform(hidden_states).real",
            "outputs = self.fourier_transform(hidden_states).abs()",
        ),
        goldens=release("fnet"),
        elsewhere=(("*.fourier.self", "*"),),
    ),
    bug(
        "modernbert",
        "activation-of-gate",
        ("self.act(input) * gate", "self.act(gate) * input"),
        goldens=fused("modernbert"),
        where=Where((("*.mlp.act", "*"),)),
    ),
    bug(
        "wav2vec2",
        "positions-trimmed-in-front",
        (
            "hidden_states = hidden_states[:, :, : -self.num_pad_remove]",
            "hidden_states = hidden_states[:, :, self.num_pad_remove :]",
        ),
        goldens=release("wav2vec2") + fused("wav2vec2"),
        elsewhere=(("*.padding", "Tensor.__getitem__"),),
    ),
    bug(
        "wavlm",
        "bucket-of-zero-distance",
        ("relative_buckets = (relative_positions > 0)", "relative_buckets = (relative_positions >= 0)"),
        goldens=release("wavlm"),
        elsewhere=(("*.attention", "Tensor.__gt__"),),
    ),
    bug(
        "whisper",
        "first-gelu-by-tanh",
        (
            "nn.functional.gelu(self.conv1(input_features))",
            'nn.functional.gelu(self.conv1(input_features), approximate="tanh")',
        ),
        goldens=release("whisper") + fused("whisper"),
        elsewhere=(("model.encoder", "Functional.gelu"),),
    ),
    bug(
        "ast",
        "one-token-pooled",
        (
            "pooled_output = (sequence_output[:, 0] + sequence_output[:, 1]) / 2",
            "pooled_output = (sequence_output[:, 0] + sequence_output[:, 0]) / 2",
        ),
        goldens=release("ast"),
        elsewhere=(
            ("audio_spectrogram_transformer", "Tensor.__getitem__"),
            ("audio_spectrogram_transformer", "Tensor.__add__"),
        ),
    ),
    bug(
        "siglip",
        "first-token-pooled",
        ("pooled_output = last_hidden_state[:, -1, :]", "pooled_output = last_hidden_state[:, 0, :]"),
        goldens=release("siglip") + fused("siglip"),
        elsewhere=(("text_model", "Tensor.__getitem__"),),
    ),
    bug(
        "siglip",
        "bias-missing",
        (
            "logits_per_text * logit_scale.exp() + logit_bias",
            "logits_per_text * logit_scale.exp()",
        ),
        goldens=release("siglip") + fused("siglip"),
        elsewhere=((".", "Tensor.__add__"), (".", "Tensor.__mul__")),
    ),
    bug(
        "clip",
        "activation-not-quick",
        ("self.activation_fn = ACT2FN[config.hidden_act]", 'self.activation_fn = ACT2FN["gelu"]'),
        goldens=release("clip") + fused("clip") + written("clip"),
        where=Where((("*.mlp.activation_fn", "*"),), lines=False),
        elsewhere=(
            ("text.?", "Torch.sigmoid"),
            ("image.?", "Torch.sigmoid"),
            ("text.?", "Tensor.__mul__"),
            ("image.?", "Tensor.__mul__"),
        ),
    ),
    bug(
        "clip",
        "future-seen",
        ("attn_weights = attn_weights + attention_mask", "attn_weights = attn_weights"),
        goldens=release("clip") + fused("clip") + written("clip"),
        where=Where(after=1),
        elsewhere=(
            ("text_model.*.self_attn", "Tensor.__add__"),
            ("text_model.*.self_attn", "Functional.softmax"),
            ("text_model.*.self_attn", "Functional.scaled_dot_product_attention"),
            ("text.?.attn", "*"),
        ),
    ),
)
