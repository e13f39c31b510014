"""ptdbg_ascend 4.0, by its own names: scripts written for it run with one import line changed.

from ulpscope.compat.ptdbg_ascend import *

As its guide says, dropout has p = 0 from the import on.
"""

from ulpscope.compat.ptdbg_ascend.debugger import PrecisionDebugger
from ulpscope.compat.ptdbg_ascend.dumping import (
    acc_cmp_dump,
    overflow_check,
    register_hook,
    set_backward_input,
    set_dump_path,
    set_dump_switch,
    set_overflow_check_switch,
)
from ulpscope.compat.ptdbg_ascend.modules import module_dump, module_dump_end
from ulpscope.compat.ptdbg_ascend.seeding import remove_dropout, seed_all

__all__ = [
    "PrecisionDebugger",
    "acc_cmp_dump",
    "module_dump",
    "module_dump_end",
    "overflow_check",
    "register_hook",
    "seed_all",
    "set_backward_input",
    "set_dump_path",
    "set_dump_switch",
    "set_overflow_check_switch",
]

remove_dropout()
