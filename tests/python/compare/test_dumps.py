"""Every dump in the golden archives: each opens without a problem, and holds what its own files say."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import golden

# How many dumps there are: a listing that finds none would prove nothing.
MSPROBE_RANKS = 49
PTDBG_RANKS = 43
HOOKS_FILES = 6


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    for name in ("msprobe", "ptdbg", "torch_npu_hooks"):
        golden.unpack(name, folder)
    return folder


def ls(path: Path) -> list[dict[str, Any]]:
    """What the command says of each rank; there must be no complaint."""
    command = [sys.executable, "-m", "ulpscope", "ls", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), path
    listed = json.loads(done.stdout)
    assert listed["errors"] == [], path
    return listed["ranks"]


def roots(folder: Path, rank_file: str) -> list[Path]:
    """The folders a run left: what lies above step and rank folders."""
    levels = re.compile(r"^(step\d+|rank\d*|proc\d+)$")
    found = set()
    for path in folder.rglob(rank_file):
        root = path.parent
        while levels.match(root.name):
            root = root.parent
        found.add(root)
    return sorted(found)


def leaves(item: Any) -> Iterator[Any]:
    """The arguments and results within a section of msprobe: tensors, plain values and None."""
    if isinstance(item, list):
        for inner in item:
            yield from leaves(inner)
    elif isinstance(item, dict) and not any(isinstance(item.get(key), str) for key in ("type", "class_type")):
        for inner in item.values():
            yield from leaves(inner)
    else:
        yield item


def is_tensor(item: Any) -> bool:
    return isinstance(item, dict) and {"type", "dtype", "shape"} <= item.keys()


def shapes(items: Iterator[Any]) -> list[tuple[str, str]]:
    return sorted((item["dtype"].removeprefix("torch."), str(item["shape"])) for item in items)


def test_every_dump_of_msprobe(unpacked: Path) -> None:
    ranks = 0
    for root in roots(unpacked / "msprobe", "dump.json"):
        for rank in ls(root):
            path = Path(rank["path"])
            recorded = json.loads(path.read_text())
            assert (rank["task"], rank["level"]) == (
                recorded["task"] if recorded["task"] in ("tensor", "structure") else "statistics",
                recorded["level"],
            ), path
            assert rank["name"] == path.parent.name
            assert f"step{rank['step']}" == path.parent.parent.name
            data = recorded["data"]
            if recorded["task"] == "structure":
                construct = json.loads((path.parent / "construct.json").read_text())
                data = {name: {} for name in construct if "." in name}
            assert [call["name"] for call in rank["calls"]] == list(data), path
            parents = json.loads((path.parent / "construct.json").read_text())
            for call in rank["calls"]:
                expected = [leaf for section in data[call["name"]].values() for leaf in leaves(section)]
                assert len(call["entries"]) == len(expected), (path, call["name"])
                found = [entry for entry in call["entries"] if entry["type"] == "tensor"]
                assert shapes(iter(found)) == shapes(filter(is_tensor, expected)), (path, call["name"])
                files = sum(isinstance(leaf, dict) and "data_name" in leaf for leaf in expected)
                assert sum(entry["data"] == "file" for entry in found) == files, (path, call["name"])
                assert call["module"] == parents.get(call["name"]), (path, call["name"])
            ranks += 1
    assert ranks == MSPROBE_RANKS


def call_of(line: list[Any]) -> str:
    """The call that a line belongs to, without the running number of torch_npu.hooks."""
    call = re.sub(r"[._](input|output|stack_info)(\.\d+)*$", "", line[0])
    return re.sub(r"^\d+_", "", call)


def check_lines(rank: dict[str, Any], path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    changes = [call_of(line) for line in lines]
    runs = [call for at, call in enumerate(changes) if at == 0 or call != changes[at - 1]]
    assert len(rank["calls"]) == len(runs), path
    # Underscores and dots aside, each call has the name that its lines have.
    for call, run in zip(rank["calls"], runs, strict=True):
        assert call["base"].replace(".", "_").removeprefix("Module_") in run.replace(".", "_"), path
    data = [line for line in lines if "stack_info" not in line[0]]
    entries = [entry for call in rank["calls"] for entry in call["entries"]]
    assert [entry["name"] for entry in entries] == [line[0] for line in data], path
    for entry, line in zip(entries, data, strict=True):
        if entry["type"] == "tensor":
            dtype, shape = (line[3], line[4]) if len(line) == 6 else (line[2], line[3])
            assert (f"torch.{entry['dtype']}", entry["shape"]) == (dtype, shape), (path, line[0])


def test_every_dump_of_ptdbg(unpacked: Path) -> None:
    ranks = 0
    for root in roots(unpacked / "ptdbg", "*.pkl"):
        for rank in ls(root.parent):
            path = Path(rank["path"])
            check_lines(rank, path)
            assert rank["tool"] == ("ptdbg_ascend 6.0" if "v6.0" in path.parts else "ptdbg_ascend"), path
            has_arrays = path.with_suffix("").is_dir()
            stacks_only = path.name == "stack_dump.pkl"
            expected = "tensor" if has_arrays else "structure" if stacks_only else "statistics"
            assert rank["task"] == expected, path
            ranks += 1
    assert ranks == PTDBG_RANKS


def test_every_dump_of_torch_npu_hooks(unpacked: Path) -> None:
    paths = sorted((unpacked / "torch_npu_hooks").glob("*.pkl"))
    assert len(paths) == HOOKS_FILES
    for path in paths:
        (rank,) = ls(path)
        assert rank["tool"] == "torch_npu.hooks"
        check_lines(rank, path)
        whole = {entry["data"] for call in rank["calls"] for entry in call["entries"] if "data" in entry}
        sampled = "sample" in path.name or path.name == "sched.pkl"
        assert whole == {"sample" if sampled else "whole"}, path


def test_a_folder_of_several_dumps_names_them(unpacked: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "ls", str(unpacked / "torch_npu_hooks")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "expected one dump, found 6 dumps: Overflow_info" in done.stderr
