"""Capture switched on by the environment, for programs that should not know more of it than one line.

    import ulpscope.auto        # in the program; does nothing unless ULPSCOPE_DUMP is set

    $ ULPSCOPE_DUMP=dumps/cpu ULPSCOPE_LEVEL=mix python train.py

It does what ``ulpscope run --dump-path dumps/cpu --level mix -- train.py`` does. Recording begins when torch
is imported, or with this line where torch is there already. A step of the optimizer ends a step. Every flag
of ``ulpscope run`` has a variable: ``--data-mode`` is ``ULPSCOPE_DATA_MODE``. A variable or value that is
wrong raises ``ulpscope.SettingsError`` here, before the program has done anything.
"""

import os as _os

from ulpscope._capture.launch import environment as _environment

is_recording: bool = _environment.record(_os.environ)
"""Whether the environment asked for a capture of this process."""
