"""The walk-through of docs/free-benchmark.md, done as it is printed: check, then fix, then the loss."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "free-benchmark.md"


def printed(language: str) -> list[str]:
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


@pytest.mark.slow
def test_check_then_fix_then_the_loss(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(printed("python")[0])

    def losses(config: str) -> list[float]:
        json.loads(config)
        (tmp_path / "config.json").write_text(config)
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        ended = subprocess.run(
            ["python", "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        return [float(line.split()[-1]) for line in ended.stdout.splitlines()]

    check, fix = printed("json")
    wrong, fixed = losses(check), losses(fix)
    with (tmp_path / "check" / "free_benchmark.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["api_name"] == "Autograd.Variance.0.forward"]
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert not (tmp_path / "fix").exists()
    assert min(wrong) > 3 * max(fixed), (wrong, fixed)
