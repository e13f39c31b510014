"""Unseen bugs of code as people write it: recurrent layers, a denoiser, arrangements, training scripts."""

from __future__ import annotations

from typing import Any

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import Edit, Run, Where, run

OTHER = "other implementation"


def script(
    name: str,
    module: str,
    old: str,
    new: str,
    target: Run,
    golden: Run,
    where: Where = EDITED,
    elsewhere: Pairs = (),
    kind: str = OTHER,
    modes: tuple[bool, ...] = (True, False),
) -> Bug:
    """A bug of hand-written code, compared with itself and with another way."""
    return Bug(name, target, (Edit(f"ports.{module}", old, new),), where, modes, elsewhere, ((kind, golden),))


def recurrent(cell: str, name: str, old: str, new: str, where: Where = EDITED) -> Bug:
    """A bug of a hand-written cell. What torch computes in one call counts as a whole."""
    target, golden = run(f"recurrent/{cell}", by="hand"), run(f"recurrent/{cell}")
    return script(
        f"{cell}/{name}", "handwritten.recurrent", old, new, target, golden, where, (("layers", "*"),)
    )


def denoiser(name: str, old: str, new: str, elsewhere: Pairs, where: Where = EDITED) -> Bug:
    """A bug of the denoiser on torch's layers."""
    target, golden = run("denoiser/16"), run("denoiser/16", plain_operations=True)
    return script(f"denoiser/{name}", "handwritten.denoisers", old, new, target, golden, where, elsewhere)


def arranged(
    name: str, old: str, new: str, target: Run, golden: Run, elsewhere: Pairs, where: Where = EDITED
) -> Bug:
    """A bug of an arrangement of a library's model."""
    kind = "inputs cut differently" if "chunks" in name or "padded" in name or "pooled" in name else OTHER
    return script(f"{name}", "programs.arrangements", old, new, target, golden, where, elsewhere, kind)


def training(
    name: str,
    old: str,
    new: str,
    target: dict[str, Any],
    golden: dict[str, Any],
    elsewhere: Pairs,
    where: Where = EDITED,
) -> Bug:
    """A bug of a training script of three steps."""
    architecture = name.partition("/")[0]
    wrong, right = (run(f"loop/{architecture}", **options) for options in (target, golden))
    return script(name, "programs.training_scripts", old, new, wrong, right, where, elsewhere, modes=(True,))


SGD = {"optimizer": "sgd"}

BUGS = (
    recurrent(
        "lstm",
        "gates-in-another-order",
        "into, kept, new, shown = gates.chunk(4, dim=-1)",
        "into, kept, shown, new = gates.chunk(4, dim=-1)",
        # The two lines that follow take the gates.
        Where(after=2),
    ),
    recurrent("lstm", "second-bias-missing", ' + getattr(self, f"bias_hh_l{layer}")', ""),
    recurrent(
        "lstm", "cell-not-squashed", "torch.sigmoid(shown) * torch.tanh(cell)", "torch.sigmoid(shown) * cell"
    ),
    recurrent(
        "gru",
        "reset-of-everything",
        "torch.tanh(new + torch.sigmoid(reset + reset_back) * new_back)",
        "torch.tanh(torch.sigmoid(reset + reset_back) * (new + new_back))",
    ),
    recurrent(
        "gru",
        "update-the-other-way",
        "state = (1 - update) * new + update * state",
        "state = update * new + (1 - update) * state",
    ),
    denoiser(
        "sines-before-cosines",
        "torch.cat([angles.cos(), angles.sin()], dim=-1)",
        "torch.cat([angles.sin(), angles.cos()], dim=-1)",
        ((".", "Torch.cos"), (".", "Torch.sin"), (".", "Torch.cat")),
    ),
    denoiser(
        "time-not-activated",
        "self.time(F.silu(time))[:, :, None, None]",
        "self.time(time)[:, :, None, None]",
        (("*.time", "*"),),
    ),
    denoiser(
        "seen-features-in-front",
        "torch.cat([x, seen], dim=1)",
        "torch.cat([seen, x], dim=1)",
        ((".", "Torch.cat"),),
    ),
    denoiser(
        "grown-by-interpolation",
        'scale_factor=2.0, mode="nearest"',
        'scale_factor=2.0, mode="bilinear"',
        ((".", "Tensor.repeat_interleave"),),
    ),
    denoiser(
        "residual-dropped",
        "            x = self.shortcut(x)\n        return x + hidden",
        "            x = self.shortcut(x)\n        return hidden",
        (),
        # Nothing takes the sum any more: what follows starts from its other term.
        Where((("*.conv2", "*"),)),
    ),
    arranged(
        "biogpt/chunks-from-previous-position",
        "            seen = start\n",
        "            seen = max(start - 1, 0)\n",
        run("arranged/in-chunks", of="biogpt"),
        run("arranged/in-chunks", of="biogpt", cached=False),
        (("biogpt.embed_positions", "*"),),
        Where((("biogpt.embed_positions", "*"),), after=1),
    ),
    arranged(
        "gpt_bigcode/padded-positions-counted",
        "positions = (mask.cumsum(-1) - 1).clamp(min=0)",
        "positions = torch.arange(mask.shape[1])[None].expand(len(mask), -1)",
        run("arranged/left-padded", of="gpt_bigcode"),
        run("arranged/left-padded", of="gpt_bigcode", padded=False),
        (("transformer.wpe", "*"), ("transformer", "Torch.arange")),
        Where((("transformer.wpe", "*"),)),
    ),
    arranged(
        "roformer/pooled-with-padding",
        "return (found * weights).sum(1) / weights.sum(1)",
        "return found.mean(1)",
        run("arranged/sentence-vectors", of="roformer"),
        run("arranged/sentence-vectors", of="roformer", by_row=True),
        ((".", "Tensor.mean"), (".", "Torch.cat")),
    ),
    arranged(
        "phi3/adapters-merged-without-scale",
        "(self.b @ self.a) * self.scale",
        "(self.b @ self.a)",
        run("arranged/adapted"),
        run("arranged/adapted", merged=False),
        (("*_proj", "Tensor.__mul__"),),
        # The sum that follows is on the same line; the product takes it.
        Where(after=1),
    ),
    arranged(
        "biogpt/bias-on-every-device",
        "F.linear(one, part) for one",
        "F.linear(one, part, self.bias) for one",
        run("arranged/over-devices", where="rows"),
        run("arranged/over-devices", where="nowhere"),
        (("*.fc2", "Functional.linear"), ("*.out_proj", "Functional.linear")),
    ),
    arranged(
        "biogpt/words-of-second-device-shifted",
        "F.embedding((ids - first).clamp(0, len(part) - 1), part)",
        "F.embedding((ids - first - 1).clamp(0, len(part) - 1), part)",
        run("arranged/over-devices", where="words"),
        run("arranged/over-devices", where="nowhere"),
        (("biogpt.embed_tokens", "*"),),
    ),
    training(
        "qwen3/decay-of-norms",
        "            if parameter.dim() > 1:\n",
        "            if parameter.dim() > 0:\n",
        {"optimizer": "own-adamw"},
        {},
        ((".", "Tensor.mul_"),),
        Where(after=1),
    ),
    training(
        "qwen3/corrections-forgotten",
        "self.lr * math.sqrt(1 - 0.99**self.count) / (1 - 0.9**self.count)",
        "self.lr",
        {"optimizer": "own-adamw"},
        {},
        ((".", "Tensor.addcdiv_"), (".", "Tensor.__truediv__")),
        Where(after=1),
    ),
    training(
        "mamba/momentum-not-ahead",
        "self.lr * (gradient + 0.9 * speed)",
        "self.lr * speed",
        {"optimizer": "own-nesterov"},
        {"optimizer": "nesterov"},
        ((".", "Tensor.add"),),
    ),
    training(
        "phi3/clip-by-largest",
        "one.grad.pow(2).sum()",
        "one.grad.abs().max().pow(2)",
        {**SGD, "clip": "own"},
        {**SGD, "clip": "library"},
        ((".", "*norm*"),),
    ),
    training(
        "xglm/average-the-other-way",
        "kept.mul_(AVERAGE).add_(parameter, alpha=1 - AVERAGE)",
        "kept.mul_(1 - AVERAGE).add_(parameter, alpha=AVERAGE)",
        {**SGD, "average": "own"},
        {**SGD, "average": "library"},
        (("*", "*lerp_*"),),
    ),
    training(
        "olmo2/mean-of-means",
        'reduction="sum") / count',
        'reduction="mean") / pieces',
        {**SGD, "pieces": 2},
        SGD,
        ((".", "Functional.cross_entropy"), (".", "Tensor.__truediv__")),
    ),
    training(
        "gpt_bigcode/rate-starts-late",
        "rise = min(1.0, (step + 1) / WARM)",
        "rise = min(1.0, step / WARM)",
        {**SGD, "schedule": "own"},
        {**SGD, "schedule": "library"},
        ((".", "Tensor.add_"),),
        # The rate is a number of Python: it shows in the update that takes it.
        Where(((".", "Tensor.add_"),), lines=False),
    ),
)
