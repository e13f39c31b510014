"""ptdbg_ascend, by its own names: scripts written for it run with one import line changed.

from ulpscope.compat.ptdbg_ascend import *
"""

from ulpscope.compat.ptdbg_ascend.compare import compare
from ulpscope.compat.ptdbg_ascend.distributed import compare_distributed
from ulpscope.compat.ptdbg_ascend.pkl_lines import parse

__all__ = ["compare", "compare_distributed", "parse"]
