"""The tables of torch_npu.hooks, row by row."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import golden

Rows = list[list[str]]

ROWS = 149
# The tool leaves the order of its sums to BLAS, so that its last digits change with the machine.
UNITS_IN_THE_LAST_PLACE = 4


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("torch_npu_hooks", tmp_path_factory.mktemp("golden"))


def compare(target: Path, expected: Path, folder: Path, *more: str, codes: tuple[int, ...] = (0, 1)) -> Rows:
    program = str(Path(sys.executable).parent / "ulpscope")
    arguments = ["compare", target, expected, "-o", folder, "--style", "torch_npu", "--format", "csv", *more]
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in codes, done.stderr
    (written,) = folder.glob("compare_result*.csv")
    with written.open(newline="") as file:
        return list(csv.reader(file))


def same(ours: str, theirs: str) -> bool:
    """The same text, or the same number except for the order of its sums."""
    if ours == theirs:
        return True
    try:
        one, other = float(ours), float(theirs)
    except ValueError:
        return False
    return bool(abs(one - other) <= UNITS_IN_THE_LAST_PLACE * np.spacing(abs(other)))


@pytest.mark.parametrize("kind", ["full", "sample"])
def test_tables_are_the_tools(archive: Path, tmp_path: Path, kind: str) -> None:
    found = compare(archive / f"scale_{kind}.pkl", archive / f"base_{kind}.pkl", tmp_path)
    with (archive / f"scale_vs_base_{kind}.csv").open(newline="") as file:
        wanted = list(csv.reader(file))
    assert len(found) == ROWS + 1
    assert [row[:6] + row[8:] for row in found] == [row[:6] + row[8:] for row in wanted]
    differing = [(ours, theirs) for ours, theirs in zip(found, wanted, strict=True) if ours != theirs]
    assert all(same(*cells) for rows in differing for cells in zip(*rows, strict=True)), differing
    assert len(differing) < ROWS // 5


def test_numbers_are_numpys(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    target, base = random.standard_normal((2, 40, 6)).astype(np.float32)
    base[:10, 0] = 0
    paths = []
    for name, rows in (("target", target), ("golden", base)):
        paths.append(tmp_path / f"{name}.pkl")
        with paths[-1].open("w") as lines:
            for number, row in enumerate(rows):
                line = [f"{number}_Torch_op{number}_forward_output", row.tolist(), "torch.float32", [6]]
                lines.write(json.dumps(line) + "\n")
    _, *found = compare(paths[0], paths[1], tmp_path / "out")
    assert len(found) == len(target)
    for row, one, other in zip(found, target.astype(float), base.astype(float), strict=True):
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        assert same(row[6], repr(float(0.5 + 0.5 * cosine)))
        assert same(row[7], repr(float(np.linalg.norm(one - other) / np.sqrt(6))))
        with np.errstate(divide="ignore"):
            share = np.mean(np.abs((one - other) / other)) * 100
        assert row[8] == f"{float(np.round(share, 4))}%"


def test_shapes_are_looked_at_only_when_asked(tmp_path: Path) -> None:
    paths = [tmp_path / "target.pkl", tmp_path / "golden.pkl"]
    for path, shapes in zip(paths, ([[4], [2, 2]], [[2, 2], [4]]), strict=True):
        with path.open("w") as lines:
            for number, shape in enumerate(shapes):
                line = [f"{number}_Torch_relu_forward_output", [1.0, 2.0, 3.0, 4.0], "torch.float32", shape]
                lines.write(json.dumps(line) + "\n")
    # Nothing can be calculated because the shapes differ, which is a difference.
    _, *by_name = compare(paths[0], paths[1], tmp_path / "by_name", codes=(1,))
    assert [row[6:] for row in by_name] == [["cannot be calculated ", *["cannot be calculated"] * 2]] * 2
    _, *by_shape = compare(paths[0], paths[1], tmp_path / "by_shape", "--match", "shape")
    # The second of the target finds the first of the golden, and what waited before is given up.
    assert [row[:2] for row in by_shape] == [["1_Torch_relu_forward_output", "0_Torch_relu_forward_output"]]
