"""Quantized tensors: their own dtype, and the numbers that they stand for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from captured import capture_of


@pytest.mark.parametrize("dtype", [torch.quint8, torch.qint8, torch.qint32])
def test_quantized_tensors_keep_their_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.tensor([0.5, 1.0, 2.0])

    def program() -> None:
        torch.quantize_per_tensor(x, 0.5, 0, dtype).dequantize()

    calls = capture_of(tmp_path, program, task="tensor").calls
    made = calls["Torch.quantize_per_tensor.0.forward"]["output"][0]
    assert made["dtype"] == str(dtype)
    assert (made["Max"], made["Min"]) == (2, 0.5)
    back = calls["Tensor.dequantize.0.forward"]
    assert back["input_args"][0]["dtype"] == str(dtype)
    assert back["output"][0]["dtype"] == "torch.float32"
