"""Scripts written for msprobe (mindstudio-probe): change ``msprobe`` to ``ulpscope.compat.msprobe``.

    from ulpscope.compat.msprobe.pytorch import PrecisionDebugger, seed_all, compare
    python -m ulpscope.compat.msprobe -f pytorch compare -i compare.json -o out

The release that is imitated is 1.1.1; the command line of 26.x is understood, too. See
docs/migrate/msprobe.md.
"""
