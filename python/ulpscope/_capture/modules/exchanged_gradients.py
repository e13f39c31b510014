"""The gradients that an optimizer gets, in runs of several ranks.

    backward pass ──► hooks of parameters: this rank's own gradients
    DistributedDataParallel, or the program, averages them over the ranks
    optimizer step, or the end of the step ──► record: what lies in ``.grad`` by then

Nothing is changed: ``.grad`` is read before an optimizer uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

if TYPE_CHECKING:
    from ulpscope._capture.modules.module_registry import ModuleRegistry


class ExchangedGradients:
    """Lets the registry record gradients before each optimizer step."""

    def __init__(self, registry: ModuleRegistry) -> None:
        self._registry = registry
        self._handle: Any = None

    def begin(self) -> None:
        """Begins to watch all optimizers."""
        self._handle = register_optimizer_step_pre_hook(self._before_update)

    def end(self) -> None:
        """Removes the hook."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def record(self) -> None:
        """Records what lies in ``.grad``, if ranks may have exchanged gradients and it was not recorded."""
        if _has_company():
            self._registry.record_exchanged()

    def _before_update(self, optimizer: Any, args: Any, keywords: Any) -> None:
        self.record()


def _has_company() -> bool:
    is_there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return is_there and torch.distributed.get_world_size() > 1
