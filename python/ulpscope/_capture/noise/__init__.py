"""Noise between two runs: ``seed`` removes randomness, ``jitter`` measures rounding noise."""
