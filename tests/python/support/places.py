"""Where tests find what they share, and how they are asked to leave nothing out."""

from pathlib import Path

# Programs that tests run, and modules that they import.
SUPPORT = Path(__file__).parent

# An environment variable: while it is set, a test that lacks something fails instead of being skipped.
TEST_ALL = "ULPSCOPE_TEST_ALL"
