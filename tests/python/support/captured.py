"""What a capture has left, for tests to look at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

import ulpscope


class Captured:
    """One step of one rank."""

    def __init__(self, dump_path: Path, step: int | str = 0, rank: str = "rank") -> None:
        """``step`` is a number, or the name of a folder."""
        self.folder = dump_path / (step if isinstance(step, str) else f"step{step}") / rank

    def document(self, name: str) -> Any:
        """A JSON file of the rank."""
        return json.loads((self.folder / name).read_text())

    @property
    def calls(self) -> dict[str, Any]:
        """The calls by name, in order."""
        return self.document("dump.json")["data"]

    @property
    def ledger(self) -> dict[str, Any]:
        """What was seen, and what became of it."""
        return self.document("ledger.json")

    def tensor(self, item: dict[str, Any]) -> torch.Tensor:
        """The elements of an entry."""
        file = self.folder / "dump_tensor_data" / item["data_name"]
        if "data_at" in item:
            return self._part(file, item)
        if file.suffix == ".pt":
            return torch.load(file, weights_only=True)
        found = ulpscope.load(file)
        return torch.from_dlpack(next(iter(found.values())) if isinstance(found, dict) else found)

    def _part(self, file: Path, item: dict[str, Any]) -> torch.Tensor:
        """Elements in a part of a file, found by what the dump says of them alone."""
        offset, length = item["data_at"]
        shape = item.get("data_shape", item["shape"])
        dtype = getattr(torch, item.get("data_dtype", item["dtype"]).removeprefix("torch."))
        with file.open("rb") as opened:
            opened.seek(offset)
            part = bytearray(opened.read(length))
        assert len(part) == length
        if not part:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(part, dtype=dtype).reshape(shape).expand(item["shape"])

    def saved_names(self) -> set[str]:
        """The names of the saved tensors, in whichever files they are."""
        names = set()
        for file in sorted((self.folder / "dump_tensor_data").iterdir()):
            if file.name.startswith("tensors-"):
                names |= set(ulpscope.load(file)) - {"__metadata__"}
            else:
                names.add(file.stem)
        return names


def capture_of(dump_path: Path, program: Any, **settings: Any) -> Captured:
    """What is captured of a program that runs one step."""
    with ulpscope.capture(dump_path, **settings):
        program()
    return Captured(dump_path)


class Net(torch.nn.Module):
    """Three layers of one kind, and what is around them."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x + self.shift


def forward_of(net: Net, x: torch.Tensor) -> Any:
    """A program that runs a net once."""
    return lambda: net(x)
