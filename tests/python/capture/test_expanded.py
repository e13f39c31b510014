"""Tensors that repeat their elements: a few bytes that stand for more than can be read."""

from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

import pytest
import torch

import ulpscope
from captured import Captured, capture_of

HUGE = (100_000, 100_000)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int32, torch.bool])
def test_ten_billion_elements(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.ones(1, dtype=dtype)
    captured = capture_of(tmp_path, lambda: x.expand(HUGE)[:1, :1])
    item = captured.calls["Tensor.expand.0.forward"]["output"][0]
    assert item["shape"] == list(HUGE)
    assert (item["Max"], item["Min"], item["Mean"]) == (1, 1, 1)
    assert item["Norm"] == math.sqrt(10.0**10)


def test_repeats_weigh_as_much_as_they_are() -> None:
    """In any dimension, with odd values among them, against a copy."""
    torch.manual_seed(0)
    few = torch.randn(3, 1, 5, 1, dtype=torch.float64)
    few[0, 0, 0], few[1, 0, 1], few[2, 0, 2], few[0, 0, 3] = math.nan, math.inf, -math.inf, 0
    wide = few.expand(3, 700, 5, 1700)
    found, wanted = ulpscope.stats(wide), ulpscope.stats(few)
    times = wide.numel() // few.numel()
    assert wide.numel() > 1 << 24
    for name in ("nan", "pos_inf", "neg_inf", "zeros", "subnormals"):
        assert getattr(found, name) == times * getattr(wanted, name), name
    for name in ("finite_max", "finite_min"):
        assert getattr(found, name) == getattr(wanted, name)
    finite = torch.nan_to_num(few, 0, 0, 0)
    found, values = ulpscope.stats(finite.expand(wide.shape)), finite.flatten().tolist()
    assert math.isclose(found.mean, math.fsum(values) / len(values), rel_tol=1e-14)
    assert math.isclose(found.norm, math.sqrt(times * math.fsum(x * x for x in values)), rel_tol=1e-14)


def test_smaller_ones_have_the_bits_of_a_copy() -> None:
    x = torch.randn(1, 1000).expand(4096, 1000)
    assert x.numel() < 1 << 24
    found, wanted = ulpscope.stats(x), ulpscope.stats(x.clone())
    for name in ("max", "min", "mean", "norm", "zeros", "finite_max", "finite_min"):
        assert getattr(found, name) == getattr(wanted, name), name


def test_digests_are_those_of_a_copy_as_far_as_they_go(tmp_path: Path) -> None:
    x = torch.tensor([1.5])
    large = capture_of(tmp_path / "large", lambda: x.expand(5000, 4000)[0], digest="md5")
    found = large.calls["Tensor.expand.0.forward"]["output"][0]["md5"]
    assert found == f"{zlib.crc32(struct.pack('<f', 1.5) * 20_000_000):08x}"
    endless = capture_of(tmp_path / "endless", lambda: x.expand(HUGE)[0, :1], digest="xxh3")
    assert "md5" not in endless.calls["Tensor.expand.0.forward"]["output"][0]
    # As a result, and as an argument.
    assert [
        note for note in endless.ledger["notes"] if "has no digest" in note and note.endswith("(2 times)")
    ]


@pytest.mark.parametrize("file_format", ["pack", "pt", "npy", "safetensors"])
def test_files_hold_no_repetitions(tmp_path: Path, file_format: str) -> None:
    x = torch.arange(3.0)
    with ulpscope.capture(tmp_path, task="tensor", file_format=file_format):
        torch.sum(x.expand(1 << 28, 3)[:2])
        torch.sum((x + 1).expand(1 << 28, 3)[:2])
    captured = Captured(tmp_path)
    assert sum(file.stat().st_size for file in captured.folder.rglob("*") if file.is_file()) < 1 << 20
    made = [captured.calls[f"Tensor.expand.{number}.forward"]["output"][0] for number in range(2)]
    if file_format in ("pack", "pt"):
        first, second = (captured.tensor(item) for item in made)
        assert first.shape == (1 << 28, 3)
        assert torch.equal(first[-1], x)
        assert torch.equal(second[-1], x + 1)
    else:
        assert not [item for item in made if "data_name" in item]
        assert sum(captured.ledger["unread"].values()) == 4
