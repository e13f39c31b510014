"""Which cases are held out: run once, at the end, and reported as they come out.

Nobody may look at what comes out of them while the judgement is being changed. `--check` runs them without
a comparison. The rule knows the name of a case alone: every way to capture a pair, and every golden of a
bug, is on the same side.
"""

from __future__ import annotations

import zlib


def is_held_out(name: str) -> bool:
    """Whether a case is held out: half of the names are. What follows an @ is the golden of a bug."""
    return zlib.crc32(name.partition("@")[0].encode()) % 2 == 0
