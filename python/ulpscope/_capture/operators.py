"""Level L2: every aten operator, those of the backward pass included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

from ulpscope._capture.functions import Function, Functions
from ulpscope._capture.recorded import call_recorded

if TYPE_CHECKING:
    from ulpscope._core import Recorder


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what reaches torch's dispatcher."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder
        self._functions = Functions()
        self._known: dict[Any, Function] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs an operator between two words to the recorder."""
        kwargs = kwargs or {}
        known = self._known.get(func)
        if known is None:
            known = self._known[func] = self._functions.describe(func)
        if known.treatment == "record":
            return call_recorded(self._recorder, (known.prefix, known.name), func, args, kwargs)
        if known.treatment == "pass":
            self._recorder.pass_over()
        return func(*args, **kwargs)
