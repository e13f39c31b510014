"""``module_dump`` and ``module_dump_end`` of ``msprobe.pytorch``: a module as one call."""

from __future__ import annotations

from typing import Any

from ulpscope.compat.msprobe.exceptions import MsprobeException
from ulpscope.compat.msprobe.pytorch.debugger import PrecisionDebugger, log


def module_dump(module: Any, dump_name: str) -> None:
    """Dumps the calls of ``module`` as ``Module.{dump_name}.{class}``, and nothing else meanwhile."""
    import torch

    if not isinstance(module, torch.nn.Module):
        log.error("The parameter module in module_dump must be a Module subclass.")
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, "module must be a torch.nn.Module")
    if not isinstance(dump_name, str) or not dump_name:
        log.error("The parameter dump_name in module_dump must be a str type.")
        raise MsprobeException(MsprobeException.INVALID_PARAM_ERROR, "dump_name must be a string")
    PrecisionDebugger.record_module(module, f"Module.{dump_name}.{type(module).__name__}")


def module_dump_end() -> None:
    """Ends ``module_dump``: everything is dumped again."""
    PrecisionDebugger.end_record_module()
