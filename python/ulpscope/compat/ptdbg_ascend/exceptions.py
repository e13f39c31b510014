"""The error of ptdbg_ascend's comparison, with its codes."""

from __future__ import annotations


class CompareException(Exception):  # noqa: N818
    """Something that cannot be compared. ``compare`` ends the script with ``code``."""

    INVALID_PATH_ERROR = 1
    INVALID_FILE_ERROR = 6
    NO_DUMP_FILE_ERROR = 9
    INVALID_PARAM_ERROR = 11
    INVALID_DUMP_FILE = 13
    INVALID_COMPARE_MODE = 17

    def __init__(self, code: int, error_info: str = "") -> None:
        super().__init__(code, error_info)
        self.code = code
        self.error_info = error_info

    def __str__(self) -> str:
        return self.error_info
