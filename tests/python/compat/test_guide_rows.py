"""Every row of the guides (T precision_tool, S ptdbg_ascend.parse, R ours) names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
TABLE = Path(__file__).with_name("guide_rows.txt")
ROWS = [*(f"T{n}" for n in range(1, 68)), *(f"S{n}" for n in range(1, 42)), *(f"R{n}" for n in range(1, 10))]
# S41: a link in the guide.
ELSEWHERE = {"S41"}


@cache
def names_in(file: str) -> frozenset[str]:
    text = (ROOT / file).read_text()
    pattern = r"^def (test_\w+)\(" if file.endswith(".py") else r"#\[test\]\s+fn (\w+)\("
    return frozenset(re.findall(pattern, text, re.MULTILINE))


def test_every_row_names_tests_that_exist() -> None:
    lines = [line.split() for line in TABLE.read_text().splitlines()]
    assert {row for row, _ in lines} == set(ROWS) - ELSEWHERE
    wrong = [name for _, name in lines if name.split("::")[1] not in names_in(name.split("::")[0])]
    assert wrong == []
