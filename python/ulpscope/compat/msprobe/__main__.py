"""``python -m ulpscope.compat.msprobe``: the command line of msprobe, 1.x and 26.x."""

import sys

from ulpscope.compat.msprobe.command import main

sys.exit(main(sys.argv[1:]))
