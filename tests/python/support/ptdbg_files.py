"""Small dumps in ptdbg_ascend 4.0's form, as the tool lays them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

STACK = [
    ["/site/hook.py", "58", "__call__", "result = self._call(*args)"],
    ["train.py", "12", "<module>", "loss = model(x)"],
]

Array = npt.NDArray[np.float32]


def line(name: str, values: Array) -> list[Any]:
    """The line of one float32 tensor."""
    figures = [float(values.max()), float(values.min()), float(values.mean())]
    return [name, 0, [], "torch.float32", list(values.shape), figures]


def write_rank(
    rank: Path,
    prefix: str = "",
    factor: float = 1.0,
    stacks: bool = False,
    data: Path | None = None,
    calls: tuple[str, ...] = ("Functional_relu_0_forward", "Torch_norm_1_forward"),
) -> Path:
    """Writes ``{prefix}dump.pkl`` and its folder, or ``data``; the last output is ``factor`` times larger."""
    rank.mkdir(parents=True, exist_ok=True)
    folder = rank / f"{prefix}dump" if data is None else data
    folder.mkdir(parents=True, exist_ok=True)
    lines: list[Any] = []
    values = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    for number, call in enumerate(calls):
        last = factor if number == len(calls) - 1 else 1.0
        parts = (("input.0", values), ("output", values * np.float32(2 * last)))
        for part, tensor in parts:
            np.save(folder / f"{call}_{part}.npy", tensor)
            lines.append(line(f"{call}_{part}", tensor))
        if stacks:
            lines.append([f"{call}_stack_info", STACK])
    pkl = rank / f"{prefix}dump.pkl"
    pkl.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return pkl
