"""``python -m ulpscope`` is the command ``ulpscope``."""

import sys

from ulpscope._cli import main

sys.exit(main())
