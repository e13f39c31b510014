"""What a step leaves behind: the results of models, and what no recorded call returned.

    a model returns ──► where its tensors came from, by name: which results of calls they are
                    ──► themselves, if a call wrote into them that did not return them: `x[0] = 1`
    the step ends   ──► those that were written into like that afterwards, and buffers that were written into

Names are in the ledger, where they cost nothing; tensors that a call returned are not recorded again.
Nothing is kept alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ulpscope._core import Recorder

# How deep results are searched: what a model returns is a tensor, or a tuple, list or dictionary of some.
_DEEPEST = 4

_RETURNED = "Returned"
_BUFFERS = "Buffers"


class StepEnds:
    """Records what models returned and what was left in their buffers, where that was written in place."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # By number of the call and place: what models returned in this step, and the recorded writes.
        self._returned: dict[str, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._records = 0

    def returned(self, output: Any) -> None:
        """Records which results a model returned, and those that were written into by then."""
        with torch._C.DisableTorchFunction():
            number, is_in_graph = self._recorder.next_model_call()
            results = dict(_tensors(output, str(number)))
            self._recorder.returned(results)
            if is_in_graph:
                # Nothing has run. What writes into them later is a call of the graph, or of another step.
                return
            self._returned.update((path, (weakref.ref(tensor), 0)) for path, tensor in results.items())
            self._record_returned()

    def end_step(self, buffers: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Records what was written since, also into buffers, and begins the next step."""
        with torch._C.DisableTorchFunction():
            self._record_returned()
            # Batch normalisation writes into its buffers without counting that, so counts do not tell.
            changed = {
                name: buffer
                for name, buffer in buffers
                if buffer.is_floating_point() and not self._recorder.is_untouched(buffer)
            }
            if changed:
                self._recorder.step_end(_BUFFERS, 0, changed)
        self.clear()

    def let_go(self, *tensors: Any) -> None:
        """Forgets tensors that are about to be swapped with others."""
        addresses = {id(tensor) for tensor in tensors}
        self._returned = {
            path: (reference, writes)
            for path, (reference, writes) in self._returned.items()
            if id(reference()) not in addresses
        }

    def clear(self) -> None:
        """Forgets everything."""
        self._returned.clear()
        self._records = 0

    def _record_returned(self) -> None:
        written: dict[str, torch.Tensor] = {}
        for path, (reference, recorded) in self._returned.items():
            tensor = reference()
            if tensor is not None and _writes(tensor) > recorded:
                self._returned[path] = reference, _writes(tensor)
                if not self._recorder.is_as_returned(tensor):
                    written[path] = tensor
        if written:
            self._recorder.step_end(_RETURNED, self._records, written)
            self._records += 1


def _tensors(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif depth < _DEEPEST and isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(item, f"{path}.{key}", depth + 1)
    elif depth < _DEEPEST and isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _tensors(item, f"{path}.{number}", depth + 1)


def _writes(tensor: torch.Tensor) -> int:
    """How often a tensor was written into; those made in inference mode do not say, and may have been."""
    return 1 if tensor.is_inference() else tensor._version
