"""``module_dump``: a module as one call, for models whose functions differ."""

from __future__ import annotations

from typing import Any

from ulpscope.compat.ptdbg_ascend import dumping
from ulpscope.compat.ptdbg_ascend.debugger import PrecisionDebugger


def module_dump(module: Any, module_name: str) -> None:
    """Dumps the inputs and outputs of ``module`` as ``{module_name}_{n}``, and of no function meanwhile."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module_dump: module is {module!r}; expected an object of a torch.nn.Module class")
    if not isinstance(module_name, str) or not module_name.replace("_", "a").isalnum():
        raise ValueError(f"module_name is {module_name!r}; expected letters, digits and underscores")
    _run("module_dump").record_module(module, module_name)


def module_dump_end() -> None:
    """Ends ``module_dump``: functions are dumped again."""
    _run("module_dump_end").end_record_module()


def _run(caller: str) -> Any:
    run = dumping.functions.recording.run or PrecisionDebugger.current_run()
    if run is None:
        raise RuntimeError(
            f'{caller}: nothing is dumped; call set_dump_switch("ON") or debugger.start() first'
        )
    return run
