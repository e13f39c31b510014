"""Reads the files of named lists that msprobe has.

    functional:      # a list
      - conv1d       # an item of it

Only this form is read, not all of YAML: anything else is an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from ulpscope._capture.settings.settings import SettingsError

MAX_BYTES = 1 << 20

_NAME = re.compile(r"(\w+)\s*:\s*")


def read(path: Path, names: Collection[str], kind: str, item: str) -> list[tuple[str, str]]:
    """The items with the names of their lists, in the order of the file.

    ``kind`` is what a list is called, ``item`` a regular expression for an item.
    """
    items = re.compile(rf"\s*-\s+([\"']?)({item})\1\s*")
    found: list[tuple[str, str]] = []
    current: str | None = None
    for number, line in enumerate(_lines(path), 1):
        text = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not text or text == "---":
            continue
        if name := _NAME.fullmatch(text):
            current = name[1]
            if current not in names:
                raise SettingsError(
                    str(path), f"line {number}: no {kind} {current!r}; expected {', '.join(names)}"
                )
        elif (listed := items.fullmatch(text)) and current is not None:
            found.append((current, listed[2]))
        else:
            expected = ", ".join(f"{name}:" for name in names)
            raise SettingsError(
                str(path), f"line {number}: expected {expected}, or '- ' and a name below one of them"
            )
    return found


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SettingsError(str(path), f"has more than {MAX_BYTES} bytes; a list of names has fewer")
        return content.decode("utf-8-sig").splitlines()
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), f"is not UTF-8 text at byte {error.start}") from None
