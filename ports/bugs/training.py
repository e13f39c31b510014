"""Bugs of a training script: its optimizer, its clipping, its micro-batches."""

from __future__ import annotations

from typing import Any

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import Edit, Run, Where, run

MODULE = "ports.programs.training_loops"
SETTINGS = {"lr": 1e-2, "weight_decay": 0.1}
GOLDENS: dict[str, Run] = {}
CLIPPED: dict[str, Any] = {"optimizer": "sgd", "settings": {"lr": 0.1}}
UPDATE = "(mean / scale) / ((square / spread).sqrt() + 1e-8)"
UPDATES = ((".", "Tensor.sqrt"), (".", "Tensor.add_"), (".", "Tensor.addcdiv_"), (".", "Tensor.div"))
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "decay-in-gradient": ((".", "Tensor.mul_"),),
    "decay-without-rate": ((".", "Tensor.mul_"),),
    "second-moment-not-corrected": UPDATES,
    "eps-inside-root": UPDATES,
    "first-beta": ((".", "Tensor.lerp_"),),
    "gradient-not-squared": ((".", "Tensor.addcmul_"),),
    "pieces-not-averaged": ((".", "Functional.cross_entropy"),),
}


def bug(name: str, old: str, new: str, target: Run, other: Run, where: Where = EDITED) -> Bug:
    return Bug(
        f"training/{name}",
        target,
        (Edit(MODULE, old, new),),
        where,
        elsewhere=ELSEWHERE.get(name, ()),
        modes=(True,),
        goldens=(("other implementation", other),),
    )


def optimizer(name: str, old: str, new: str) -> Bug:
    """A bug of the script's own AdamW, compared with itself and with torch's."""
    own = run("train/gpt2", optimizer="own", settings=SETTINGS)
    return bug(name, old, new, own, run("train/gpt2", optimizer="adamw", settings=SETTINGS))


BUGS = (
    optimizer(
        "decay-in-gradient",
        "parameter.mul_(1 - self.lr * self.decay)",
        "parameter.grad.add_(parameter, alpha=self.decay)",
    ),
    optimizer(
        "decay-without-rate", "parameter.mul_(1 - self.lr * self.decay)", "parameter.mul_(1 - self.decay)"
    ),
    optimizer("second-moment-not-corrected", UPDATE, "(mean / scale) / (square.sqrt() + 1e-8)"),
    optimizer("eps-inside-root", UPDATE, "(mean / scale) / (square / spread + 1e-8).sqrt()"),
    optimizer(
        "first-beta",
        "mean.mul_(first).add_(parameter.grad, alpha=1 - first)",
        "mean.mul_(first).add_(parameter.grad)",
    ),
    optimizer(
        "gradient-not-squared",
        "square.mul_(second).add_(parameter.grad * parameter.grad,",
        "square.mul_(second).add_(parameter.grad.abs(),",
    ),
    bug(
        "pieces-not-averaged",
        "labels.reshape(-1)) / pieces",
        "labels.reshape(-1))",
        run("train/gpt2", pieces=2),
        run("train/gpt2"),
        Where(after=2),
    ),
    bug(
        "clip-by-sum-of-magnitudes",
        "(one.grad.float() ** 2).sum()",
        "one.grad.float().abs().sum()",
        run("train/gpt2", clip="own", **CLIPPED),
        run("train/gpt2", clip="library", **CLIPPED),
    ),
    bug(
        "clip-each-parameter",
        "one.grad.mul_(torch.clamp(0.1 / (norm + 1e-6), max=1.0))",
        "one.grad.mul_(torch.clamp(0.1 / (one.grad.norm() + 1e-6), max=1.0))",
        run("train/gpt2", clip="own", **CLIPPED),
        run("train/gpt2", clip="library", **CLIPPED),
    ),
)
