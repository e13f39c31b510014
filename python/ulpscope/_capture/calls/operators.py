"""Level L2: every aten operator, including those of the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from ulpscope._core import Recorder


# Operators whose gradients torch computes differently, or with one check less, while a dispatch mode is on.
_OTHER_BACKWARDS = frozenset(("aten::prod", "aten::cumprod", "aten::linalg_eig"))

_OTHER_GRADIENTS = (
    "torch computes gradients of prod, cumprod and linalg.eig another way where a dispatch mode is on, as at "
    "level L2: they may differ in their last bits from those of the program alone, and an error may not be "
    "raised; levels L1 and mix change nothing"
)


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes every operator that reaches torch's dispatcher to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs an operator."""
        if func._schema.name in _OTHER_BACKWARDS and torch.is_grad_enabled():
            self._recorder.note_once(_OTHER_GRADIENTS)
        return self._recorder.see_operator(func, args, kwargs or {})
