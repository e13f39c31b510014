"""Calls that may be one of several functions, and results of a wrong shape or dtype."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import ulpscope


def replaced(folder: Path, name: str, wrong: Tensor) -> None:
    """What was recorded of a result becomes a different tensor, as a broken kernel returns it."""
    path = folder / "step0" / "rank" / "dump_tensor_data" / f"{name}.pt"
    path.unlink()
    ulpscope.save(path, wrong)
    record = folder / "step0" / "rank" / "dump.json"
    document = json.loads(record.read_text())
    [entry] = document["data"][name.removesuffix(".output.0")]["output"]
    entry["shape"], entry["dtype"] = list(wrong.shape), str(wrong.dtype)
    record.write_text(json.dumps(document))


LINALG: dict[str, Callable[[Tensor], object]] = {
    "svd": torch.linalg.svd,
    "norm": lambda x: torch.linalg.norm(x, 2),
    "cross": lambda x: torch.linalg.cross(x[:3, :3], x[:3, 1:]),
    "vander": lambda x: torch.linalg.vander(x[0]),
    "diagonal": lambda x: torch.linalg.diagonal(torch.stack([x] * 4)),
    "det": torch.linalg.det,
}


@pytest.mark.parametrize("name", LINALG)
def test_functions_of_linalg_are_not_taken_for_those_of_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4)
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        LINALG[name](x)
    result = ulpscope.check(tmp_path, white_list=[name])
    assert [(call.call, call.forward) for call in result.calls] == [(f"Torch.{name}.0", "pass")]


def test_a_result_that_no_candidate_explains_is_wrong(tmp_path: Path) -> None:
    x = torch.randn(4, 4)
    with ulpscope.capture(tmp_path / "dump", level="L1", task="tensor", file_format="pt"):
        y = torch.linalg.norm(x, 2)
    replaced(tmp_path / "dump", "Torch.norm.0.forward.output.0", y * 1.001)
    result = ulpscope.check(tmp_path / "dump", output=tmp_path / "out")
    [call] = result.failed
    # Of the two, the one that differs least is named: the script calls it.
    assert "torch.linalg.norm(" in Path(call.repro).read_text()


def test_compare_proves_no_fault_of_a_healthy_function_of_linalg(tmp_path: Path) -> None:
    """The target alone is wrong."""
    for side in ("target", "golden"):
        torch.manual_seed(0)
        with ulpscope.capture(tmp_path / side, level="L1", task="tensor", file_format="pt"):
            y = torch.linalg.norm(torch.randn(4, 4), 2)
    replaced(tmp_path / "target", "Torch.norm.0.forward.output.0", y * 1.001)
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden", prove=True).first_divergence
    assert first is not None
    assert (first.call, first.proof, first.wrong_side) == ("Torch.norm.0.forward", "proved", "target")


def test_a_result_of_a_wrong_shape_is_wrong(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, level="L1", task="tensor", file_format="pt"):
        y = torch.relu(torch.ones(4, 4))
    replaced(tmp_path, "Torch.relu.0.forward.output.0", y[:, :3].contiguous())
    result = ulpscope.check(tmp_path, white_list=["relu"])
    assert result.exit_code == 1
    assert "shape (4, 3), expected (4, 4)" in result.failed[0].message


def test_a_result_of_too_narrow_a_dtype_is_wrong(tmp_path: Path) -> None:
    x = torch.randn(4, 4)
    with ulpscope.capture(tmp_path / "dump", level="L1", task="tensor", file_format="pt"):
        y = torch.sin(x)
    replaced(tmp_path / "dump", "Torch.sin.0.forward.output.0", y.half())
    result = ulpscope.check(tmp_path / "dump", output=tmp_path / "out")
    [call] = result.failed
    assert "dtype torch.float16, expected torch.float32" in call.message
    assert "its dtype is wrong" in call.no_repro


def test_dtypes_that_a_call_chooses_are_right(tmp_path: Path) -> None:
    """Promotion, conversion, a scalar tensor that does not count, and what autocast widens."""
    half, x = torch.randn(4).half(), torch.randn(4)
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        half + x
        half * torch.tensor(2.0)
        x.to(torch.bfloat16)
        torch.sum(x, dtype=torch.float16)
        torch.sin(x, out=torch.empty(4, dtype=torch.float16))
        with torch.autocast("cpu", torch.bfloat16):
            (torch.randn(4, 4) @ torch.randn(4, 4)).softmax(-1)
    result = ulpscope.check(tmp_path)
    assert result.failed == []
    assert len(result.calls) - len(result.skipped) >= 6
