"""Bugs of Llama in transformers."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Where, run

MODULE = "transformers.models.llama.modeling_llama"
TARGET = run("hf/llama")
GOLDENS = {
    "other release": run("hf/llama", OLD),
    "eager and SDPA": run("hf/llama", attention="sdpa"),
    "other implementation": run("hand/llama"),
}
SCORES = "attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling"
SOFTMAX = "attn_weights = nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)"
RATES = "self.inv_freq.to(device=x.device, dtype=torch.float)"
# Where goldens compute scores and mask in their own way.
FUSED = ("*", "Functional.scaled_dot_product_attention")
SCALED = (FUSED, ("*.self_attn", "Tensor.__truediv__"), ("layers.*.attention", "Tensor.__truediv__"))
MASKED = (FUSED, ("layers.*.attention", "Tensor.masked_fill"))
ROTARY = (
    ("*.rotary", "*"),
    ("*.rotary_emb", "*"),
    ("*.self_attn", "Torch.cat"),
    ("*.self_attn", "Tensor.__neg__"),
)
NORMS = (("*norm", "*"),)
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "rotary-pairs-interleaved": ROTARY,
    "rotary-sign": ROTARY,
    "rotary-sine-for-cosine": ROTARY,
    "rotary-half-the-rate": ROTARY,
    "rotary-rates-in-bfloat16": ROTARY,
    "rotary-base": ROTARY,
    "rotary-key-without-sine": ROTARY,
    "keys-tiled": (("layers.*.attention", "Tensor.repeat_interleave"),),
    "norm-eps": NORMS,
    "norm-variance-about-mean": NORMS,
    "norm-weight-plus-one": NORMS,
    "norm-in-bfloat16": NORMS,
    "residual-after-norm": (("layers.?", "Tensor.__add__"), ("model.layers.?", "Tensor.__add__")),
    "activation-gelu": (("layers.*.feed_forward", "Functional.silu"),),
    "gate-and-up-swapped": (("layers.*.feed_forward", "*"),),
    "values-from-key-projection": (
        ("*.v_proj", "*"),
        ("*.wqkv", "*"),
        ("layers.*.attention", "Tensor.split"),
    ),
    "heads-not-transposed-back": (
        ("*.self_attn", "Tensor.transpose"),
        ("layers.*.attention", "Tensor.transpose"),
    ),
    "heads-interleaved": (("*.self_attn", "Tensor.view"), ("layers.*.attention", "Tensor.view")),
    "causal-mask-vanishes": MASKED,
}


def bug(name: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    return Bug(
        f"llama/{name}", TARGET, (Edit(MODULE, old, new, nth),), where, elsewhere=ELSEWHERE.get(name, ())
    )


BUGS = (
    bug(
        "rotary-pairs-interleaved",
        "    x1 = x[..., : x.shape[-1] // 2]\n    x2 = x[..., x.shape[-1] // 2 :]",
        "    x1 = x[..., 0::2]\n    x2 = x[..., 1::2]",
    ),
    bug("rotary-sign", "torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, -x1), dim=-1)"),
    bug(
        "rotary-key-without-sine",
        "k_embed = (k * cos) + (rotate_half(k) * sin)",
        "k_embed = k * cos",
        Where(golden=(("layers.*.rotary", "*"),)),
    ),
    bug("rotary-sine-for-cosine", "cos = emb.cos() * self", "cos = emb.sin() * self"),
    bug("rotary-half-the-rate", RATES, f"({RATES} / 2)"),
    bug("rotary-rates-in-bfloat16", RATES, "self.inv_freq.bfloat16().to(device=x.device, dtype=torch.float)"),
    bug(
        "rotary-base",
        'base = config.rope_parameters["rope_theta"]',
        "base = 500000.0",
        Where(
            (("model.rotary_emb", "Tensor.__mul__"), ("model.rotary_emb", "Tensor.to"), ("", "*inv_freq*")),
            lines=False,
        ),
    ),
    bug("scale-missing", SCORES, SCORES.removesuffix(" * scaling"), Where(golden=SCALED, after=2)),
    bug(
        "scale-by-width",
        SCORES,
        SCORES.replace("* scaling", "* module.config.hidden_size**-0.5"),
        Where(golden=SCALED),
    ),
    bug("softmax-over-queries", SOFTMAX, SOFTMAX.replace("dim=-1", "dim=-2"), Where(golden=MASKED)),
    bug(
        "softmax-in-bfloat16",
        SOFTMAX,
        SOFTMAX.replace("torch.float32", "torch.bfloat16"),
        Where(golden=MASKED),
    ),
    bug(
        "mask-off-by-one",
        "attn_weights + attention_mask",
        "attn_weights + attention_mask.roll(1, -1)",
        Where(golden=MASKED),
    ),
    bug(
        "mask-ignored",
        "attn_weights = attn_weights + attention_mask",
        "attn_weights = attn_weights",
        Where(golden=MASKED, after=2),
    ),
    bug(
        "keys-tiled",
        "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
        "hidden_states[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen, head_dim)",
        Where(after=1),
    ),
    bug("norm-eps", "torch.rsqrt(variance + self.variance_epsilon)", "torch.rsqrt(variance + 1e-2)"),
    bug(
        "norm-variance-about-mean",
        "variance = hidden_states.pow(2).mean(-1, keepdim=True)",
        "variance = hidden_states.var(-1, keepdim=True)",
    ),
    bug("norm-weight-plus-one", "return self.weight * hidden", "return (1 + self.weight) * hidden"),
    bug(
        "norm-in-bfloat16",
        "hidden_states = hidden_states.to(torch.float32)\n",
        "hidden_states = hidden_states.to(torch.bfloat16)\n",
    ),
    bug(
        "residual-dropped",
        "hidden_states = residual + hidden_states\n\n",
        "hidden_states = hidden_states\n\n",
        Where(
            (
                ("model.layers.*.post_attention_layernorm", "Module"),
                ("model.layers.*.post_attention_layernorm", "Tensor.to"),
                ("model.layers.*.post_attention_layernorm", "Tensor.pow"),
            ),
            golden=(("layers.?", "Tensor.__add__"), ("model.layers.?", "Tensor.__add__")),
            after=4,
        ),
    ),
    bug(
        "residual-after-norm",
        "residual = hidden_states\n        hidden_states = self.post_attention_layernorm(hidden_states)",
        "hidden_states = self.post_attention_layernorm(hidden_states)\n        residual = hidden_states",
        Where(after=2),
    ),
    bug(
        "activation-gelu",
        "self.act_fn = ACT2FN[config.hidden_act]",
        'self.act_fn = ACT2FN["gelu"]',
        Where((("model.layers.*.mlp.act_fn", "*"),), lines=False),
    ),
    bug(
        "gate-and-up-swapped",
        "self.act_fn(self.gate_proj(x)) * self.up_proj(x)",
        "self.act_fn(self.up_proj(x)) * self.gate_proj(x)",
        Where((("model.layers.*.mlp.act_fn", "*"),)),
    ),
    bug("values-from-key-projection", "self.v_proj(hidden_states).view", "self.k_proj(hidden_states).view"),
    bug(
        "heads-not-transposed-back",
        "attn_output = attn_output.transpose(1, 2).contiguous()",
        "attn_output = attn_output.contiguous()",
        Where((("model.layers.*.self_attn", "Tensor.reshape"),)),
    ),
    bug(
        "heads-interleaved",
        "self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)",
        "self.q_proj(hidden_states).view(*input_shape, self.head_dim, -1).permute(0, 3, 1, 2)",
    ),
    bug("output-through-bfloat16", "self.o_proj(attn_output)", "self.o_proj(attn_output.bfloat16().float())"),
    bug(
        "last-norm-missing",
        "hidden_states = self.norm(hidden_states)",
        "hidden_states = hidden_states",
        Where(
            (("model.norm", "*"), ("lm_head", "*"), (".", "Tensor.__getitem__")), (("norm", "*"),), after=1
        ),
    ),
    bug("causal-mask-vanishes", "attention_mask=causal_mask,", "attention_mask=causal_mask * 1e-38,"),
)
