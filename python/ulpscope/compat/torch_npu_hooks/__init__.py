"""torch_npu.hooks, by its own names: scripts written for it run with one import line changed.

from ulpscope.compat.torch_npu_hooks import set_dump_path, seed_all, register_hook, wrap_acc_cmp_hook
from ulpscope.compat.torch_npu_hooks.tools import compare
"""

from ulpscope.compat.torch_npu_hooks.dumping import (
    register_hook,
    seed_all,
    set_dump_path,
    wrap_acc_cmp_hook,
    wrap_async_datadump_hook,
    wrap_checkoverflow_hook,
)
from ulpscope.compat.torch_npu_hooks.steps import schedule, step_schedule

__all__ = [
    "register_hook",
    "schedule",
    "seed_all",
    "set_dump_path",
    "step_schedule",
    "wrap_acc_cmp_hook",
    "wrap_async_datadump_hook",
    "wrap_checkoverflow_hook",
]
