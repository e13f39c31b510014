"""Reads a ``support_wrap_ops.yaml``: msprobe's list of the functions that are recorded, by category.

    functional:      # a category
      - conv1d       # a function of it: Functional.conv1d

Only this form is read, not all of YAML: anything else is an error that names the line.
"""

from __future__ import annotations

import re
from pathlib import Path

from ulpscope._capture.settings.settings import SettingsError

MAX_BYTES = 1 << 20

PREFIXES = {
    "functional": "Functional",
    "tensor": "Tensor",
    "torch": "Torch",
    "_VF": "VF",
    "aten": "Aten",
    "torch_npu": "NPU",
    "distributed": "Distributed",
    "npu_distributed": "Distributed",
    "mindspeed": "MindSpeed",
}
"""The categories, and the first part of the names of their calls."""

_CATEGORY = re.compile(r"(\w+)\s*:\s*")
_FUNCTION = re.compile(r"\s*-\s+([\"']?)([\w.]+)\1\s*")


def read(path: Path) -> tuple[str, ...]:
    """The functions of a file as prefix and name, in its order."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SettingsError(str(path), f"has more than {MAX_BYTES} bytes; a list of functions has fewer")
        lines = content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), f"is not UTF-8 text at byte {error.start}") from None
    prefix: str | None = None
    found: list[str] = []
    for number, line in enumerate(lines, 1):
        text = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not text or text == "---":
            continue
        if category := _CATEGORY.fullmatch(text):
            prefix = PREFIXES.get(category[1])
            if prefix is None:
                expected = ", ".join(PREFIXES)
                raise SettingsError(
                    str(path), f"line {number}: no category {category[1]!r}; expected {expected}"
                )
        elif (function := _FUNCTION.fullmatch(text)) and prefix is not None:
            found.append(f"{prefix}.{function[2]}")
        else:
            raise SettingsError(
                str(path),
                f"line {number}: expected a category such as 'functional:', or '- ' and a function below one",
            )
    if not found:
        raise SettingsError(str(path), "lists no function: nothing would be recorded")
    return tuple(dict.fromkeys(found))
