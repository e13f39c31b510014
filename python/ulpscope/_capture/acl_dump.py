"""Lets an NPU dump the operators of one call: the call is made while the device's own dump is on.

torch_npu.npu.init_dump, set_dump(dump.json) ──► the call, or its backward ──► finalize_dump
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import ulpscope
from ulpscope._capture.calls import modes
from ulpscope._capture.calls.named_calls import NamedCall, NamedCalls
from ulpscope._capture.values.ranges import tensors_of

_log = logging.getLogger("ulpscope")


def torch_npu_functions() -> Any:
    """``torch_npu.npu``, if it has the functions of the dump; None without torch_npu."""
    npu = getattr(sys.modules.get("torch_npu"), "npu", None)
    wanted = ("init_dump", "set_dump", "finalize_dump", "synchronize")
    return npu if npu is not None and all(callable(getattr(npu, name, None)) for name in wanted) else None


class AclDump(NamedCalls):
    """Dumps the operators of one call, by its name with underscores: ``Tensor_permute_1_forward``."""

    def __init__(
        self, npu: Any, config: str, name: str, gradients: Sequence[Path], counts: dict[str, int]
    ) -> None:
        super().__init__()
        self._npu = npu
        self._config = config
        self._is_backward = name.endswith("_backward")
        # A backward call is dumped when its forward call is made, whose graph it needs.
        self._name = name.removesuffix("_backward").removesuffix("_forward")
        self.gradients = gradients
        # How often each function was called, in earlier pieces of the step too.
        self._counts = counts
        self._is_on = False

    def start(self) -> None:
        """Begins to look for the call."""
        self._is_on = True
        modes.put_function_mode(self)

    def stop(self) -> None:
        """Looks no more."""
        if self._is_on and not self._has_been_found():
            _log.warning("acl mode: no call %s was made", self._name)
        self._is_on = False
        modes.take_function_mode(self)

    def _has_been_found(self) -> bool:
        prefix, _, number = self._name.rpartition("_")
        counts = {base.replace(".", "_"): count for base, count in self._counts.items()}
        return number.isdecimal() and counts.get(prefix, 0) > int(number)

    def around(self, call: NamedCall) -> Any:
        """Runs a call; the wanted one while the dump is on."""
        if not self._is_on or f"{call.base}.{call.number}".replace(".", "_") != self._name:
            return call.original()
        if not self._is_backward:
            with self._dumping():
                return call.original()
        result = call.original()
        with torch._C.DisableTorchFunction():
            self._run_backward(result, [*call.args, *call.kwargs.values()])
        return result

    def _run_backward(self, result: Any, arguments: list[Any]) -> None:
        if not isinstance(result, torch.Tensor):
            _log.warning("%s is not of tensor type and cannot be automatically derived", self._name)
            return
        if not self.gradients:
            raise ValueError("acl mode: a backward API needs the file of its gradient in backward_input")
        gradient = ulpscope.load(self.gradients[0], "torch").to(result.device)
        inputs = [one for one in tensors_of(arguments) if one.requires_grad]
        if not result.requires_grad or not inputs:
            _log.warning("%s has no backward call: nothing of it requires a gradient", self._name)
            return
        with self._dumping():
            torch.autograd.grad(result, inputs, gradient, retain_graph=True, allow_unused=True)

    @contextlib.contextmanager
    def _dumping(self) -> Iterator[None]:
        self._npu.init_dump()
        try:
            self._npu.set_dump(self._config)
            self._npu.synchronize()
            yield
        finally:
            self._npu.synchronize()
            self._npu.finalize_dump()
