"""Capture switched on by environment variables, with one line in the program.

    import ulpscope.auto        # in the program; does nothing unless ULPSCOPE_DUMP is set

    $ ULPSCOPE_DUMP=dumps/cpu ULPSCOPE_LEVEL=mix python train.py

It does what ``ulpscope run --dump-path dumps/cpu --level mix -- train.py`` does. Recording begins when torch
is imported, or with this line if torch is already imported. An optimizer's step ends a step. Every flag of
``ulpscope run`` has a variable: ``--data-mode`` is ``ULPSCOPE_DATA_MODE``. An invalid variable or value
raises ``ulpscope.SettingsError`` here, before the program has done anything.
"""

import os as _os

from ulpscope._capture.launch import environment as _environment

is_recording: bool = _environment.record(_os.environ)
"""Whether the environment requested a capture of this process."""
