"""The overflow flag of an NPU, which its calculations set and only a clear removes.

The calls of torch_npu are tested with a stand-in, and not on a device.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger("ulpscope")

# The variable of the older tools: the flag is read by an operator, and what the program reads of it stays.
DEBUG_MODE = "OVERFLOW_DEBUG_MODE_ENABLE"

# The length of the tensor that holds the flag.
_STATUS = 8


class OverflowFlag:
    """The flag of the current device."""

    def __init__(self, torch_npu: Any, is_debug: bool) -> None:
        self._torch_npu = torch_npu
        self._is_debug = is_debug

    def is_set(self) -> bool:
        """Whether a calculation overflowed since the last clear."""
        if not self._is_debug:
            return bool(self._torch_npu._C._check_overflow_npu())
        with _explained():
            status = self._torch_npu.npu_get_float_status(_status())
            return bool(status.cpu()[0] != 0)

    def clear(self) -> None:
        """Clears it."""
        if not self._is_debug:
            self._torch_npu._C._clear_overflow_npu()
            return
        with _explained():
            self._torch_npu.npu_clear_float_status(_status())


def _status() -> Any:
    # Not imported before the program imports torch.
    import torch

    return torch.zeros(_STATUS).npu()  # type: ignore[attr-defined]


def overflow_flag() -> OverflowFlag | None:
    """The flag, if torch_npu is imported; None without it."""
    torch_npu = sys.modules.get("torch_npu")
    is_debug = os.environ.get(DEBUG_MODE, "0") == "1"
    if getattr(torch_npu, "_C", None) is not None:
        return OverflowFlag(torch_npu, is_debug)
    if is_debug:
        _log.warning(
            "%s=1 needs an Ascend NPU and torch_npu, which is not loaded: results are checked instead",
            DEBUG_MODE,
        )
    return None


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Adds to the error of a CANN that lacks the operators what can be done."""
    try:
        yield
    except RuntimeError as error:
        if "EZ3003" not in str(error):
            raise
        raise RuntimeError(
            f"{error}\nEZ3003: this CANN does not support {DEBUG_MODE}=1; unset it, or install one that does"
        ) from error
