"""Single values saved by hand, and their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._core import Recorder

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.failures import Failures


class Savings:
    """Values that were saved in this step, and those with gradients still to come."""

    def __init__(self, recorder: Recorder, failures: Failures) -> None:
        self._recorder = recorder
        self._failures = failures
        self._waiting: list[_Gradients] = []
        self._taken: dict[str, set[int]] = {}

    def save(self, variable: Any, name: str, with_gradients: bool) -> None:
        """Records a value now, and the gradients of its tensors once all have arrived."""
        number = self._number(name, 0)
        self._recorder.save_as(name, number, variable)
        if with_gradients:
            gradients = _Gradients(f"{name}_grad", self._write)
            try:
                gradients.tree = gradients.watch(variable)
            except RecursionError:
                gradients.remove()
                self._recorder.note(f"{name} is nested too deeply: its gradients are not recorded")
                return
            except Exception as error:
                # A tensor class may not support hooks.
                gradients.remove()
                self._failures.hold_back(f"the gradients of {name}", error)
                return
            if gradients.expected:
                # The number of the value, unless the user has also saved something under this name.
                gradients.number = self._number(gradients.name, number)
                self._waiting.append(gradients)

    def _number(self, name: str, first: int) -> int:
        """The first number, from ``first`` on, that is free for this name in this step."""
        taken = self._taken.setdefault(name, set())
        number = next(number for number in itertools.count(first) if number not in taken)
        taken.add(number)
        return number

    def flush(self) -> None:
        """Ends a step: records the gradients that have arrived, even if some are missing."""
        self._taken.clear()
        waiting, self._waiting = self._waiting, []
        for gradients in waiting:
            gradients.remove()
            if gradients.found:
                self._write(gradients)

    def forget(self) -> None:
        """Drops all pending gradients without recording them."""
        waiting, self._waiting = self._waiting, []
        for gradients in waiting:
            gradients.remove()

    def _write(self, gradients: _Gradients) -> None:
        if gradients in self._waiting:
            self._waiting.remove(gradients)
        self._recorder.save_as(gradients.name, gradients.number, gradients.collect(gradients.tree))


class _Gradients:
    """The gradients of the tensors in one value, nested as in the value."""

    def __init__(self, name: str, done: Callable[[_Gradients], None]) -> None:
        self.name, self.number = name, 0
        self.tree: Any = None
        self.expected = 0
        self.found: dict[int, torch.Tensor] = {}
        self._done = done
        self._handles: list[Any] = []
        # By the addresses of containers, in the value and in the tree: each is visited once.
        self._trees: dict[int, Any] = {}
        self._collected: dict[int, Any] = {}

    def watch(self, value: Any, depth: int = 0) -> Any:
        """The value with its tensors replaced by numbers, to the depth that is recorded."""
        if isinstance(value, torch.Tensor):
            if not value.requires_grad:
                return None
            number = self.expected
            self.expected += 1
            self._handles.append(value.register_hook(self._hook(number)))  # type: ignore[no-untyped-call]
            return number
        if depth > Recorder.MAX_DEPTH or not isinstance(value, list | tuple | dict):
            return None
        if id(value) in self._trees:
            return self._trees[id(value)]
        # None inside itself.
        self._trees[id(value)] = None
        # Loops, not comprehensions, which add a frame per level before Python 3.12.
        tree: Any
        if isinstance(value, dict):
            tree = {}
            for key, item in value.items():
                tree[key] = self.watch(item, depth + 1)
        else:
            tree = []
            for item in value:
                tree.append(self.watch(item, depth + 1))
        self._trees[id(value)] = tree
        return tree

    def collect(self, tree: Any) -> Any:
        """The tree with its numbers replaced by gradients."""
        if id(tree) in self._collected:
            return self._collected[id(tree)]
        gradients: Any = None
        if isinstance(tree, list):
            gradients = self._collected[id(tree)] = []
            for item in tree:
                gradients.append(self.collect(item))
        elif isinstance(tree, dict):
            gradients = self._collected[id(tree)] = {}
            for key, item in tree.items():
                gradients[key] = self.collect(item)
        elif tree is not None:
            gradients = self.found.get(tree)
        return gradients

    def remove(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()

    def _hook(self, number: int) -> Callable[[torch.Tensor], None]:
        def arrived(gradient: torch.Tensor) -> None:
            self.found[number] = gradient
            if len(self.found) == self.expected:
                self.remove()
                self._done(self)

        return arrived
