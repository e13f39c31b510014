"""Reads the data of a page as a browser does."""

from __future__ import annotations

import base64
import json
import os
import re
import struct
import zlib
from typing import Any

import pytest

import ulpscope
from places import TEST_ALL

PART = re.compile(r'<script type="text/plain" data-part="([^"]+)">([^<]*)</script>')


def html_of(result: ulpscope.Comparison, **options: Any) -> str:
    """The page of a comparison. A build without the page skips the test, unless ULPSCOPE_TEST_ALL is set."""
    try:
        return result.to_html(**options)
    except OSError as error:
        if "make web" not in str(error) or os.environ.get(TEST_ALL):
            raise
        pytest.skip(str(error))


class PageParts:
    """The parts of a page, opened on request."""

    def __init__(self, html: str) -> None:
        self.parts = {name: zlib.decompress(base64.b64decode(part), -15) for name, part in PART.findall(html)}
        self.around = PART.sub("", html)

    def json(self, name: str) -> Any:
        return json.loads(self.parts[name])

    @property
    def manifest(self) -> dict[str, Any]:
        return self.json("manifest")

    def column(self, name: str) -> list[Any]:
        """The values of a column; all None if it was left out."""
        return column(self.parts[name])

    def calls(self, field: str, rank: int = 0) -> list[Any]:
        name = f"calls/{rank}/{field}"
        return self.column(name) if name in self.parts else [None] * self.manifest["ranks"][rank]["calls"]

    def call(self, name: str, rank: int = 0) -> int:
        """The number of a call."""
        return self.calls("name", rank).index(name)

    def rows(self, column_name: str, rank: int = 0) -> list[Any]:
        names = [one["name"] for one in self.manifest["columns"]]
        start = f"rows/{rank}/{names.index(column_name)}/"
        chunks = sorted(
            (name for name in self.parts if name.startswith(start)), key=lambda name: int(name[len(start) :])
        )
        return [value for name in chunks for value in self.column(name)]


def column(part: bytes) -> list[Any]:
    kind, has_bitmap, count = part[0], part[1], struct.unpack("<I", part[4:8])[0]
    rest = part[8:]
    if kind == 0:
        dictionary = json.loads(rest)
        return [dictionary["values"][code] for code in dictionary["codes"]]
    there = [True] * count
    if has_bitmap:
        there = [bool(rest[at >> 3] >> (at & 7) & 1) for at in range(count)]
        rest = rest[(count + 7) // 8 :]
    size, form = (8, "<d") if kind == 1 else (4, "<f")
    numbers = (
        struct.unpack(form, bytes(rest[byte * count + at] for byte in range(size)))[0] for at in range(count)
    )
    return [number if is_there else None for number, is_there in zip(numbers, there, strict=True)]
