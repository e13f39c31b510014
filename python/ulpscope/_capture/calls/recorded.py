"""Records a call of a function that torch does not show to function modes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.switch import Switch
    from ulpscope._core import OpenCall, Recorder


class CallRunner(ABC):
    """Takes the place of a recorder, and runs the calls itself: see `named_calls`."""

    @abstractmethod
    def run_call(
        self,
        prefix: str,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Runs a call that torch does not show to function modes."""


def call_recorded(
    recorder: Recorder,
    name: tuple[str, str],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shown: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    end: Callable[[OpenCall, Any], None] | None = None,
) -> Any:
    """Calls a function and records the call under a prefix and a name.

    ``shown`` are the recorded arguments, if they differ from those passed to the function. ``end`` ends the
    call, if its result is not what the function returns.
    """
    if isinstance(recorder, CallRunner):
        return recorder.run_call(*name, function, args, kwargs)
    begun = recorder.begin(*name, *(shown or (args, kwargs)))
    if begun is None:
        return function(*args, **kwargs)
    try:
        output = function(*args, **kwargs)
    except BaseException as error:
        recorder.raised(begun, type(error).__name__)
        raise
    (end or recorder.end)(begun, output)
    return output


def recorded(
    recorder: Recorder, switch: Switch, prefix: str, name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    """A function whose calls are recorded."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not switch.is_on():
            return function(*args, **kwargs)
        return call_recorded(recorder, (prefix, name), function, args, kwargs)

    call.__name__ = call.__qualname__ = getattr(function, "__name__", name)
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call
