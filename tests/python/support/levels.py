"""The levels of capture as parameters of tests that are repeated at each."""

import pytest

# Many programs at four levels take minutes. The working loop has `mix`, which records calls and modules.
LEVELS = [
    pytest.param("L0", marks=pytest.mark.slow),
    pytest.param("L1", marks=pytest.mark.slow),
    "mix",
    pytest.param("L2", marks=pytest.mark.slow),
]
