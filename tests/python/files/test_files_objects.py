"""Files that hold more than tensors in dictionaries: what is in them is compared, or said to be unread."""

from __future__ import annotations

import argparse
import decimal
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ulpscope
from dumps import run


class Linked:
    """An object that is part of itself, as a tree with links to parents is."""

    def __init__(self, number: float) -> None:
        self.weight, self.child = torch.full((3,), number), types.SimpleNamespace()
        self.child.parent = self


class Slotted:
    __slots__ = ("weight",)

    def __init__(self, number: float) -> None:
        self.weight = torch.full((3,), number)


def linear(number: float) -> nn.Module:
    module = nn.Linear(3, 3)
    for parameter in module.parameters():
        nn.init.constant_(parameter, number)
    return module


def full(number: float) -> torch.Tensor:
    return torch.full((3,), number)


def with_scale(number: float) -> nn.Parameter:
    """A quantized weight, say, whose scale is an attribute."""
    parameter = nn.Parameter(torch.ones(3))
    parameter.scale = full(number)  # type: ignore[attr-defined]
    return parameter


OBJECTS: dict[str, Callable[[float], Any]] = {
    "module": linear,
    "parameters": lambda number: nn.ParameterList([full(number)]),
    "namespace": lambda number: argparse.Namespace(weight=full(number)),
    "plain namespace": lambda number: types.SimpleNamespace(lr=number),
    "packed": lambda number: nn.utils.rnn.pack_sequence([full(number)]),
    "distribution": lambda number: torch.distributions.Normal(full(number), torch.ones(3)),
    "optimizer": lambda number: torch.optim.Adam([torch.ones(3, requires_grad=True)], lr=0.5 + number),
    "bytes": lambda number: bytes([int(number)] * 40),
    "bytearray": lambda number: bytearray([int(number)]),
    "long integer": lambda number: 10**30 + int(number),
    "longer integer": lambda number: 10**60 + int(number),
    "complex": lambda number: complex(number, 0),
    "decimal": lambda number: decimal.Decimal(int(number)),
    "masked array": lambda number: np.ma.array([1.0, number]),
    "linked": Linked,
    "parameter with a tensor": with_scale,
    "list of a kind": lambda number: torch.Size([int(number), 3]),
    "slots": Slotted,
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_is_compared_or_not_read(kind: str, tmp_path: Path) -> None:
    """But never passed over: two files that differ in it do not agree."""
    for name, number in [("golden", 1.0), ("same", 1.0), ("other", 2.0)]:
        torch.save({"w": torch.ones(3), "object": OBJECTS[kind](number)}, tmp_path / f"{name}.pt")
    assert not ulpscope.compare(tmp_path / "other.pt", tmp_path / "golden.pt").ok
    same = ulpscope.compare(tmp_path / "same.pt", tmp_path / "golden.pt")
    assert same.ok or same.agreement == "inconclusive", same.reason
    assert same.ok == (kind != "longer integer"), same.reason


def test_a_saved_module_is_read_by_its_attributes(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    torch.save(module, tmp_path / "whole.pt")
    read = ulpscope.load(tmp_path / "whole.pt")
    assert read["__class__"] == "torch.nn.modules.container.Sequential"
    linear, norm = read["_modules"]["0"], read["_modules"]["1"]
    assert torch.equal(torch.as_tensor(linear["_parameters"]["weight"]), module[0].weight.detach())
    assert torch.equal(torch.as_tensor(norm["_buffers"]["running_var"]), torch.ones(3))


def test_plain_attributes_leave_a_parameter_a_tensor(tmp_path: Path) -> None:
    parameter = nn.Parameter(torch.ones(3))
    parameter.is_shared = True  # type: ignore[attr-defined]
    torch.save({"w": parameter}, tmp_path / "parameter.pt")
    assert torch.equal(torch.as_tensor(ulpscope.load(tmp_path / "parameter.pt")["w"]), torch.ones(3))


@pytest.mark.slow
def test_a_set_has_no_order(tmp_path: Path) -> None:
    """Python orders it by hashes that are random for each process."""
    program = "import sys, torch; torch.save({'names': {f'name{at}' for at in range(20)}}, sys.argv[1])"
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program, str(tmp_path / f"{seed}.pt")]
        subprocess.run(command, env=environment, check=True)
    compared = ulpscope.compare(tmp_path / "1.pt", tmp_path / "2.pt")
    assert compared.ok, compared.reason


def test_text_is_not_bytes(tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3), "x": b"abc"}, tmp_path / "bytes.pt")
    torch.save({"w": torch.ones(3), "x": "616263"}, tmp_path / "text.pt")
    assert not ulpscope.compare(tmp_path / "bytes.pt", tmp_path / "text.pt").ok


def test_an_object_that_is_part_of_itself(tmp_path: Path) -> None:
    torch.save(Linked(1.0), tmp_path / "linked.pt")
    read = ulpscope.load(tmp_path / "linked.pt")
    assert torch.equal(torch.as_tensor(read["weight"]), full(1.0))
    assert "that this is part of" in read["child"]["parent"].reason


@pytest.mark.parametrize("kind", ["state_dict", "npz"])
def test_what_is_only_named_like_an_array_is_not_read_by_half(kind: str, tmp_path: Path) -> None:
    for side, number in [("target", 2.0), ("golden", 1.0)]:
        folder = tmp_path / side
        folder.mkdir()
        np.save(folder / "array.npy", np.ones(2))
        with (folder / "several.npy").open("wb") as file:
            if kind == "npz":
                np.savez(file, a=np.ones(3), b=np.full(3, number))
            else:
                torch.save({"a": torch.ones(3), "b": full(number)}, file)
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2, ran.stdout
    assert "several.npy: is named like an array file and holds 2 values: rename it" in ran.stderr


def test_a_second_array_is_not_passed_over(tmp_path: Path) -> None:
    with (tmp_path / "twice.npy").open("wb") as file:
        np.save(file, np.ones(3))
        np.save(file, np.zeros(3))
    with pytest.raises(ulpscope.FormatError, match="expected one array, found a second one"):
        ulpscope.load(tmp_path / "twice.npy")
    with (tmp_path / "twice.pt").open("wb") as file:
        for number in (1.0, 2.0):
            torch.save(full(number), file, _use_new_zipfile_serialization=False)
    with pytest.raises(ulpscope.FormatError, match="expected one saved object, found a second one"):
        ulpscope.load(tmp_path / "twice.pt")


def test_many_masks_that_compress_well_are_read(tmp_path: Path) -> None:
    """Together they are larger than what a file of this size may take in memory."""
    masks = {f"mask{number}": np.zeros((1, 1, 480, 480), np.float32) for number in range(120)}
    np.savez_compressed(tmp_path / "masks.npz", **masks)
    assert (tmp_path / "masks.npz").stat().st_size < 1 << 20
    read = ulpscope.load(tmp_path / "masks.npz")
    assert list(read) == list(masks)
    assert all(torch.as_tensor(mask).sum() == 0 for mask in read.values())


def test_dictionaries_that_differ_are_false(tmp_path: Path) -> None:
    golden = {"a": torch.ones(3), "b": torch.zeros(3)}
    same, other = ulpscope.diff(golden, golden), ulpscope.diff(golden | {"b": torch.ones(3)}, golden)
    assert same
    assert same.ok
    assert list(same) == ["a", "b"]
    assert not other
    assert not other.ok
    assert other["a"].ok


@pytest.mark.parametrize("command", ["ls", "stats"])
def test_files_without_anything_are_an_error(command: str, tmp_path: Path) -> None:
    torch.save({}, tmp_path / "empty.pt")
    np.savez(tmp_path / "empty.npz")
    (tmp_path / "empty.pkl").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "broken.npy").write_bytes(b"\x93NUMPY")
    for name in ("empty.pt", "empty.npz", "empty.pkl", "folder"):
        ran = run(command, tmp_path / name)
        assert ran.returncode == 2, (name, ran.stdout, ran.stderr)
        assert "error: " in ran.stderr, name


def test_a_folder_with_nothing_to_convert_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "dump.json").write_text('{"task": "statistics", "level": "L1", "data": {}}')
    ran = run("convert", tmp_path / "dump", "-o", tmp_path / "out", "--to", "npy")
    assert ran.returncode == 2, ran.stdout
    assert "holds nothing that can be converted" in ran.stderr


def test_two_tensors_without_names_are_explained(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(8))
    np.save(tmp_path / "b.npy", np.full(8, 2.0))
    compared = ulpscope.compare(tmp_path / "a.npy", tmp_path / "b.npy")
    assert compared.reason == "the two tensors differ"
    explained = compared.explain()
    assert "1 of 1 tensor differs: a." in explained
    assert "call" not in explained.split("How large:")[0], explained
