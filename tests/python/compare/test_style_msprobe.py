"""`--style msprobe` and `--style msprobe-1` against the results of msprobe itself, row by row."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest

import golden

# Stacks of a whole model in one cell are longer than the csv module expects.
csv.field_size_limit(1 << 26)

# Sums come from BLAS there; every other number is the same to the last digit.
EUCLID_TOLERANCE = 1e-12

# Workbooks keep sixteen digits of a number.
WORKBOOK_TOLERANCE = 1e-15

CASES = {
    "edge_tensor_L1_vs_mix": ("edge_tensor_L1", "edge_tensor_mix"),
    "md5_L1_wfault": ("gptS_md5_L1_wfault", "gptS_md5_L1_ref"),
    "stat_L0_bf16": ("gpt_stat_L0_bf16", "gpt_stat_L0_ref"),
    "stat_L1_bf16": ("gpt_stat_L1_bf16", "gpt_stat_L1_ref"),
    "stat_L1_wfault": ("gpt_stat_L1_wfault", "gpt_stat_L1_ref"),
    "stat_L1_wfault_dir": ("gpt_stat_L1_wfault", "gpt_stat_L1_ref"),
    "stat_L1_wfault_xlsx": ("gpt_stat_L1_wfault", "gpt_stat_L1_ref"),
    "stat_mix_wfault": ("gpt_stat_mix_wfault", "gpt_stat_mix_ref"),
    "tensor_L1_bf16": ("gptS_tensor_L1_bf16", "gptS_tensor_L1_ref"),
    "tensor_L1_self": ("gptS_tensor_L1_ref", "gptS_tensor_L1_ref"),
    "tensor_L1_wfault": ("gptS_tensor_L1_wfault", "gptS_tensor_L1_ref"),
}
OLD_CASES = {
    "compare_stat_mix": ("stat_mix_fault", "stat_mix_ref"),
    "compare_tensor_L1": ("tensor_L1_fault", "tensor_L1_ref"),
}

Rows = list[list[str]]
Same = Callable[[str, str, str], bool]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("msprobe", tmp_path_factory.mktemp("golden"))


def run(style: str, target: Path, trusted: Path, out: Path, *options: str) -> Rows:
    """Compares, and returns the rows of the one csv that comes of it, the header first."""
    command = [sys.executable, "-m", "ulpscope", "compare", target, trusted, "-o", out]
    command += ["--style", style, "--format", "csv", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    (result,) = out.glob("compare_result*.csv")
    with result.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def workbook(path: Path) -> Rows:
    rows = openpyxl.load_workbook(path).active.iter_rows(values_only=True)
    return [["" if cell is None else str(cell) for cell in row] for row in rows]


def near(ours: str, theirs: str, tolerance: float) -> bool:
    try:
        a, b = float(ours), float(theirs)
    except ValueError:
        return False
    return a == b or abs(a - b) <= tolerance * abs(b)


def in_csv(column: str, ours: str, theirs: str) -> bool:
    return ours == theirs or (column == "EucDist" and near(ours, theirs, EUCLID_TOLERANCE))


def in_workbook(column: str, ours: str, theirs: str) -> bool:
    # What could begin a formula is quoted in a csv.
    return in_csv(column, ours.removeprefix("'"), theirs) or near(ours, theirs, WORKBOOK_TOLERANCE)


def assert_same(ours: Rows, theirs: Rows, same: Same) -> None:
    assert ours[0] == theirs[0]
    columns = theirs[0]
    for found, expected in zip(ours[1:], theirs[1:], strict=False):
        different = {
            column: (a, b)
            for column, a, b in zip(columns, found, expected, strict=True)
            if not same(column, a, b)
        }
        assert not different, expected[0]
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("case", CASES)
def test_rows_are_those_of_26(archive: Path, tmp_path: Path, case: str) -> None:
    target, trusted = (archive / "dumps" / name / "step0/proc1000/dump.json" for name in CASES[case])
    ours = run("msprobe", target, trusted, tmp_path)
    (result,) = (archive / "compare" / case).iterdir()
    if result.suffix == ".xlsx":
        assert_same(ours, workbook(result), in_workbook)
        return
    with result.open(newline="", encoding="utf-8") as file:
        assert_same(ours, list(csv.reader(file)), in_csv)


@pytest.mark.parametrize("case", OLD_CASES)
def test_rows_and_advice_are_those_of_1(archive: Path, tmp_path: Path, case: str) -> None:
    old = archive / "old/v1.1.1"
    target, trusted = (old / name / "step0/rank/dump.json" for name in OLD_CASES[case])
    ours = run("msprobe-1", target, trusted, tmp_path, "-s")
    (result,) = (old / case).glob("*.xlsx")
    assert_same(ours, workbook(result), in_workbook)
    (advice,) = tmp_path.glob("advisor*.txt")
    (expected,) = (old / case).glob("advisor*.txt")
    assert advice.read_text() == expected.read_text()
