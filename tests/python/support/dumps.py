"""Small dumps in msprobe's layout from real tensors, and the command to compare them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import ulpscope

PROGRAM = [sys.executable, "-m", "ulpscope"]

Values = Sequence[Any]
# Name of a call, its inputs, its outputs.
Call = tuple[str, Values, Values]


def item(value: Any, name: str, tensors: Path | None) -> Any:
    """An argument or result as msprobe describes it."""
    if not isinstance(value, torch.Tensor):
        return None if value is None else {"type": type(value).__name__, "value": value}
    described: dict[str, Any] = {
        "type": "torch.Tensor",
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "Max": None,
        "Min": None,
        "Mean": None,
        "Norm": None,
        "requires_grad": value.requires_grad,
    }
    if value.numel() and value.is_floating_point():
        numbers = value.detach().float()
        described |= {
            "Max": numbers.max().item(),
            "Min": numbers.min().item(),
            "Mean": numbers.mean().item(),
            "Norm": numbers.norm().item(),
        }
    if tensors is not None:
        described["data_name"] = f"{name}.pt"
        ulpscope.save(tensors / f"{name}.pt", value.detach())
    return described


def write_rank(
    folder: Path,
    calls: Iterable[Call],
    *,
    tensors: bool = True,
    stacks: Mapping[str, Sequence[str]] | None = None,
    parents: Mapping[str, str] | None = None,
) -> Path:
    """A rank of a dump. Names as msprobe's: `Functional.relu.0.forward`."""
    data_folder = folder / "dump_tensor_data" if tensors else None
    (data_folder or folder).mkdir(parents=True, exist_ok=True)
    data: dict[str, Any] = {}
    for name, inputs, outputs in calls:
        words = ("input_args", "output") if name.endswith(".forward") else ("input", "output")
        described = [
            [item(value, f"{name}.{role}.{position}", data_folder) for position, value in enumerate(values)]
            for role, values in (("input", inputs), ("output", outputs))
        ]
        data[name] = {words[0]: described[0], "output": described[1]}
        if words[0] == "input_args":
            data[name]["input_kwargs"] = {}
    header = {
        "task": "tensor" if tensors else "statistics",
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": str(data_folder),
    }
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}, indent=1))
    (folder / "stack.json").write_text(
        json.dumps(
            {str(number): [[name], lines] for number, (name, lines) in enumerate((stacks or {}).items())}
        )
    )
    (folder / "construct.json").write_text(json.dumps(dict(parents or {})))
    return folder


def chain(
    depth: int, *, seed: int = 0, dtype: torch.dtype = torch.float32, fault: Mapping[int, float] | None = None
) -> list[Call]:
    """A network of linear layers and activations, run for real; a fault multiplies the output of one call."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 32, generator=generator).to(dtype)
    calls: list[Call] = []
    for layer in range(depth):
        weight = (torch.randn(32, 32, generator=generator) / 32**0.5).to(dtype)
        y = torch.nn.functional.linear(x, weight)
        if fault and layer in fault:
            y = y * fault[layer]
        calls.append((f"Functional.linear.{layer}.forward", [x, weight, None], [y]))
        z = torch.nn.functional.gelu(y)
        calls.append((f"Functional.gelu.{layer}.forward", [y], [z]))
        x = z
    calls.append(("Tensor.sum.0.forward", [x], [x.sum()]))
    return calls


def run(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command, as a user runs it."""
    return subprocess.run([*PROGRAM, *map(str, args)], capture_output=True, text=True, check=False, **options)


def read_csv(folder: Path) -> list[dict[str, str]]:
    """The rows of the only sheet in a folder."""
    [path] = folder.glob("compare_result_*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
