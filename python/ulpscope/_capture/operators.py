"""Level L2: every aten operator, those of the backward pass included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch.utils._python_dispatch import TorchDispatchMode

from ulpscope._capture.functions import Functions
from ulpscope._capture.recorded import call_recorded

if TYPE_CHECKING:
    from ulpscope._core import Recorder


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what reaches torch's dispatcher."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder
        self._functions = Functions()
        # Nothing for what is not recorded.
        self._names: dict[Any, tuple[str, str] | None] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Runs an operator between two words to the recorder."""
        kwargs = kwargs or {}
        if func not in self._names:
            described = self._functions.describe(func)
            is_recorded = described.treatment != "through"
            self._names[func] = (described.prefix, described.name) if is_recorded else None
        name = self._names[func]
        if name is None:
            return func(*args, **kwargs)
        return call_recorded(self._recorder, name, func, args, kwargs)
