"""What scripts import from ``msprobe.pytorch``."""

from ulpscope._capture.noise.seed import seed_all
from ulpscope.compat.msprobe.pytorch.comparison import compare, compare_distributed
from ulpscope.compat.msprobe.pytorch.debugger import PrecisionDebugger
from ulpscope.compat.msprobe.pytorch.modules import module_dump, module_dump_end

__all__ = [
    "PrecisionDebugger",
    "compare",
    "compare_distributed",
    "module_dump",
    "module_dump_end",
    "seed_all",
]
