"""``ulpscope convert --pkl-style``: the lines of ptdbg_ascend, as the tool wrote them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import golden


def convert(*arguments: object) -> str:
    program = Path(sys.executable).parent / "ulpscope"
    command = [str(program), "convert", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


@pytest.mark.parametrize(("release", "style"), [("v4.0.T2", "ptdbg"), ("v6.0", "ptdbg-6")])
def test_a_dump_of_the_tool_comes_back_as_the_same_bytes(tmp_path: Path, release: str, style: str) -> None:
    dumps = golden.unpack("ptdbg", tmp_path) / release / "dumps"
    # A lone output may be what a filter left of a tuple; dump.json has no place for steps of module_dump.
    unlike = {"filter_on", "module_dump"}
    cases = [path for path in sorted(dumps.rglob("*.pkl")) if path.relative_to(dumps).parts[0] not in unlike]
    assert len(cases) > 15
    for number, pkl in enumerate(cases):
        folder = tmp_path / str(number)
        assert convert(pkl, "-o", folder / "dump.json") == ""
        assert convert(folder / "dump.json", "-o", folder / "dump.pkl", "--pkl-style", style) == ""
        assert (folder / "dump.pkl").read_bytes() == pkl.read_bytes(), pkl
