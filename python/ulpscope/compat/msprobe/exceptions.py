"""The errors of msprobe, with its codes and texts."""

from __future__ import annotations

from typing import ClassVar


class _CodedError(Exception):
    """An error with a number, which selects the first part of its text."""

    err_strs: ClassVar[dict[int, str]] = {}

    def __init__(self, code: int, error_info: str = "") -> None:
        super().__init__(code, error_info)
        self.code = code
        self.error_info = self.err_strs[code] + error_info

    def __str__(self) -> str:
        return self.error_info


class MsprobeException(_CodedError):  # noqa: N818
    """A parameter that cannot be used."""

    INVALID_PARAM_ERROR = 0
    err_strs: ClassVar[dict[int, str]] = {INVALID_PARAM_ERROR: "[msprobe] 无效参数："}  # noqa: RUF001


class CompareException(_CodedError):  # noqa: N818
    """A comparison that cannot be made."""

    INVALID_PATH_ERROR = 1
    INVALID_PARAM_ERROR = 4
    NOT_COMPARED = 5
    err_strs: ClassVar[dict[int, str]] = {
        INVALID_PATH_ERROR: "[msprobe] invalid path: ",
        INVALID_PARAM_ERROR: "[msprobe] invalid parameter: ",
        NOT_COMPARED: "[msprobe] Compare failed. Please check the arguments and do it again! ",
    }
