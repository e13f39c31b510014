"""TorchScript: compiled code runs outside of Python, where no function mode sees it.

A function is recorded as one call, ``Script.{function}``, a method as ``Script.{Class}.{method}``. The ledger
says that calls inside are not recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._capture.calls import modes
from ulpscope._capture.calls.recorded import call_recorded
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch

if TYPE_CHECKING:
    from ulpscope._core import Recorder


def add_scripts(patches: Patches, recorder: Recorder, switch: Switch, sees_apis: bool) -> None:
    """Notes calls of TorchScript code, and records them if function calls are recorded."""
    for kind, name_of in ((torch._C.ScriptFunction, _function_name), (torch._C.ScriptMethod, _method_name)):
        original = vars(kind)["__call__"]
        patches.add(kind, "__call__", _noted(original, name_of, recorder, switch, sees_apis))


def _noted(
    original: Any, name_of: Callable[[Any], str], recorder: Recorder, switch: Switch, sees_apis: bool
) -> Callable[..., Any]:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        script = original.__get__(self, type(self))
        # Inside a torch function, which is already one call, there is no mode.
        if not switch.is_on() or (sees_apis and not modes.is_function_mode_on(recorder)):
            return script(*args, **kwargs)
        name = name_of(self)
        recorder.note(f"Script.{name} was run by TorchScript: what runs inside it is not seen")
        if not sees_apis:
            return script(*args, **kwargs)
        return call_recorded(recorder, ("Script", name), script, args, kwargs)

    return __call__


def _function_name(function: Any) -> str:
    return str(function.name)


def _method_name(method: Any) -> str:
    owner = method.owner._type().name() or "Module"
    return f"{owner}.{method.name}"
