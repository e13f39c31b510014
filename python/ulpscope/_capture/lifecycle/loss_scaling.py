"""Asks torch's GradScaler whether it skips a step: then its overflows are expected."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from ulpscope._capture.lifecycle.patches import Patches


class ScaledCheck(Protocol):
    """A check whose overflows wait for the decision of a loss scaler."""

    is_scaled: bool
    """Whether a loss was scaled, and the scaler has not decided since."""

    def set_scaling(self, is_scaling: bool) -> None:
        """The scaler multiplies the loss, or has done so."""

    def scaler_decided(self, skips: bool) -> None:
        """The scaler skips the step, or does not: nothing is scaled any more. May raise what ends the run."""


class LossScaling:
    """Reports to a check what scalers do."""

    def __init__(self, check: ScaledCheck) -> None:
        self._check = check

    def add(self, patches: Patches) -> None:
        """Wraps ``scale`` and ``update`` of each class of scalers that has its own."""
        for kind in _scalers():
            for name, wrapped in (("scale", self._scale), ("update", self._update)):
                if name in vars(kind):
                    patches.add(kind, name, wrapped(vars(kind)[name]))

    def _scale(self, scale: Any) -> Any:
        def scale_noted(scaler: Any, outputs: Any) -> Any:
            if not scaler.is_enabled():
                return scale(scaler, outputs)
            self._check.is_scaled = True
            self._check.set_scaling(True)
            try:
                return scale(scaler, outputs)
            finally:
                self._check.set_scaling(False)

        return scale_noted

    def _update(self, update: Any) -> Any:
        def update_noted(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            skips = self._check.is_scaled and _found_inf(scaler)
            result = update(scaler, *args, **kwargs)
            if self._check.is_scaled:
                self._check.scaler_decided(skips)
            return result

        return update_noted


def _scalers() -> list[type]:
    """Torch's class, and that of torch_npu. ``torch.cuda.amp.GradScaler`` inherits its methods."""
    import torch

    own = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler
    amp = getattr(getattr(sys.modules.get("torch_npu"), "npu", None), "amp", None)
    others = [getattr(amp, "GradScaler", None), torch.cuda.amp.GradScaler]
    return [own, *(kind for kind in others if isinstance(kind, type) and kind is not own)]


def _found_inf(scaler: Any) -> bool:
    """Whether the scaler has found NaN or infinity in gradients since its last update."""
    import torch

    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        states = scaler._per_optimizer_states.values()
        return any(bool(found.item()) for state in states for found in state["found_inf_per_device"].values())
