"""Healthy pairs that `compare` blames a call for, and what replay says of them.

    python -m faults.false_alarms

A layer is computed by two kernels, both right, that round differently. What follows multiplies that rounding
by far more than the model of the comparison expects of the operation. No call is wrong, so `--prove` has to
refute every finding. Whoever finds another such call adds it here.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.overrides import TorchFunctionMode

import ulpscope

ALARMS: dict[str, Callable[[Tensor], Tensor]] = {
    "division by differences": lambda y: 1 / (y - y.mean()),
    "remainder": lambda y: torch.remainder(100 * y, 0.1),
    "fmod": lambda y: torch.fmod(1e3 * y, 0.5),
    "linear equations": lambda y: torch.linalg.solve(y.T @ y + 1e-5 * torch.eye(32), torch.ones(32)),
    "inverse": lambda y: torch.linalg.inv(y[:16, :16]),
    "gradient of singular vectors": lambda y: torch.linalg.svd(y)[0],
    "gradient of a norm near zero": lambda y: F.normalize(1e-9 * y * y * y),
}

# The same, of functions whose condition is known: nothing is blamed.
EXPLAINED: dict[str, Callable[[Tensor], Tensor]] = {
    "sine of large numbers": lambda y: torch.sin(1e4 * y),
    "softmax of large scores": lambda y: torch.softmax(2000 * y, -1),
}


class InDouble(TorchFunctionMode):
    """Has linear layers computed in float64 and rounded once, which is as right as any other order."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not F.linear:
            return func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            doubled = [one.double() if isinstance(one, Tensor) else one for one in args]
            return F.linear(*doubled).to(args[0].dtype)


def record(then: Callable[[Tensor], Tensor], dump: Path) -> Path:
    """A dump of a layer and what follows, forward and backward."""
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(32, 32), torch.randn(64, 32)
    with ulpscope.capture(dump, level="L1", task="tensor"):
        then(layer(x)).square().mean().backward()  # type: ignore[no-untyped-call]
    return dump


def pair(then: Callable[[Tensor], Tensor], folder: Path) -> tuple[Path, Path]:
    """Two healthy runs: target and golden."""
    target = record(then, folder / "target")
    with InDouble():
        return target, record(then, folder / "golden")


def main() -> int:
    """Prints what is said of each pair; exit code 1 if a call is still blamed."""
    blamed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, then in ALARMS.items():
            target, golden = pair(then, Path(scratch, name))
            alarms = [one.call for one in ulpscope.compare(target, golden).divergences]
            proved = ulpscope.compare(target, golden, prove=True)
            left = [f"{one.call} ({one.proof})" for one in proved.divergences]
            blamed += bool(left)
            refuted = [one.call for one in proved.refuted]
            print(f"{name}: blamed {alarms}, refuted {refuted}, still blamed {left}: {proved.agreement}")
    return 1 if blamed else 0


if __name__ == "__main__":
    sys.exit(main())
