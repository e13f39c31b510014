"""The dump of the guide's first script, read by mindstudio-probe's own compare."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import mindstudio
from captured import Captured
from places import SUPPORT

pytestmark = pytest.mark.peer


def test_its_compare_has_every_row_and_every_stack(tmp_path: Path) -> None:
    """Release 26.2, which reads stacks by name, too."""
    peer = mindstudio.environment()
    (tmp_path / "script.py").write_text((SUPPORT / "guides" / "msprobe_2_1.txt").read_text())
    settings = {"task": "tensor", "dump_path": "dump", "level": "mix"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    rank = tmp_path / "dump" / "step0" / "rank"
    file = str(rank / "dump.json")
    mindstudio.commands(peer, [["compare", "-tp", file, "-gp", file, "-o", str(tmp_path / "out")]])
    with next((tmp_path / "out").glob("compare_result*.csv")).open(newline="") as sheet:
        rows = list(csv.DictReader(sheet))
    assert len(rows) == len(mindstudio.rows(rank))
    forward = [name for name in Captured(tmp_path / "dump").calls if ".forward" in name]
    assert sum("File " in row["NPU_Stack_Info"] for row in rows) == len(forward)
