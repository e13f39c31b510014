"""A call of a module as a function of its parameters, buffers and arguments: all of them can be changed."""

from __future__ import annotations

from typing import Any

import torch
from torch.func import functional_call

from ulpscope._capture.calls.named_calls import NamedCall, unseen


class ModuleCall(NamedCall):
    """A call of a module. A second run gets copies of the buffers, which modules write to."""

    @classmethod
    def of(cls, base: str, number: int, module: torch.nn.Module, args: Any, kwargs: Any) -> ModuleCall:
        """The call of a module that is about to run."""

        def run(state: dict[str, torch.Tensor], args: Any, kwargs: Any) -> Any:
            return functional_call(module, state, args, kwargs)

        with unseen():
            state: dict[str, torch.Tensor] = dict(module.named_parameters())
            state |= {name: value.detach().clone() for name, value in module.named_buffers()}
        return cls(base, number, run, (state, args, kwargs), {}, None)

    @property
    def name(self) -> str:
        """``Module.fc.Linear.forward.0``."""
        return f"{self.base}.forward.{self.number}"
