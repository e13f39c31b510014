"""Noise between two runs: ``seed`` takes out what is random, ``jitter`` measures what rounding leaves."""
