"""Single values saved by hand, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ulpscope._core import Recorder


class Savings:
    """Values whose gradients may still come."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: list[_Gradients] = []

    def save(self, variable: Any, name: str, with_gradients: bool) -> None:
        """Records a value now, and the gradients of its tensors when the last of them has come."""
        number = self._recorder.save(name, variable)
        if with_gradients:
            gradients = _Gradients(f"{name}_grad", number, self._write)
            gradients.tree = gradients.watch(variable)
            if gradients.expected:
                self._waiting.append(gradients)

    def flush(self) -> None:
        """Records the gradients that have come of values that wait for more, and waits no longer."""
        waiting, self._waiting = self._waiting, []
        for gradients in waiting:
            gradients.remove()
            if gradients.found:
                self._write(gradients)

    def forget(self) -> None:
        """Waits for no gradients any more, and records none."""
        waiting, self._waiting = self._waiting, []
        for gradients in waiting:
            gradients.remove()

    def _write(self, gradients: _Gradients) -> None:
        if gradients in self._waiting:
            self._waiting.remove(gradients)
        self._recorder.save_as(gradients.name, gradients.number, gradients.collect(gradients.tree))


class _Gradients:
    """The gradients of the tensors in one value, in its own nesting."""

    def __init__(self, name: str, number: int, done: Callable[[_Gradients], None]) -> None:
        self.name, self.number = name, number
        self.tree: Any = None
        self.expected = 0
        self.found: dict[int, torch.Tensor] = {}
        self._done = done
        self._handles: list[Any] = []

    def watch(self, value: Any) -> Any:
        """The value with the numbers of its tensors in their place."""
        if isinstance(value, torch.Tensor):
            if not value.requires_grad:
                return None
            number = self.expected
            self.expected += 1
            self._handles.append(value.register_hook(self._hook(number)))  # type: ignore[no-untyped-call]
            return number
        if isinstance(value, list | tuple):
            return [self.watch(item) for item in value]
        if isinstance(value, dict):
            return {key: self.watch(item) for key, item in value.items()}
        return None

    def collect(self, tree: Any) -> Any:
        """The gradients in the place of the numbers."""
        if isinstance(tree, list):
            return [self.collect(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self.collect(item) for key, item in tree.items()}
        return self.found.get(tree) if tree is not None else None

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        def arrived(gradient: torch.Tensor) -> None:
            self.found[number] = gradient
            if len(self.found) == self.expected:
                self.remove()
                self._done(self)

        return arrived
