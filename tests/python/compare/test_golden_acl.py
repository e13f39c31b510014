"""ACL dumps of the golden archive through the command: conversion, layouts, overflow files, two devices."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked: Path = golden.unpack("acl", tmp_path_factory.mktemp("acl"))
    return unpacked


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def convert(source: Path, target: Path, *words: object) -> list[str]:
    done = run("convert", source, "-o", target, "--to", "npy", *words)
    assert done.returncode in (0, 2), done.stderr
    return sorted(path.name for path in target.iterdir())


NET = "inputs/precision_data/npu/debug_0/dump/20260101120000/0/ge_default_20260101120001_1/1/0"


@pytest.mark.parametrize(
    ("case", "source"),
    [("convert_net", NET), ("convert_multi", "inputs/zoo/multi"), ("mapping", "inputs/zoo/mapping")],
)
def test_converted_files_have_the_names_and_bytes_of_the_older_tool(
    acl: Path, tmp_path: Path, case: str, source: str
) -> None:
    names = convert(acl / source, tmp_path)
    expected = sorted(path.name for path in (acl / "expected" / case).iterdir())
    # The older tool does not convert the neighbour of the file with digits for a name.
    assert [name for name in names if not name.startswith("Add.short.")] == expected
    for name in expected:
        mine, theirs = tmp_path / name, acl / "expected" / case / name
        if name.endswith(".bin"):
            assert mine.read_bytes() == theirs.read_bytes()
        else:
            # The older tool makes a vector of a scalar.
            array = np.load(theirs)
            assert np.array_equal(np.load(mine).reshape(array.shape), array)


def test_a_file_of_one_tensor_keeps_input_or_output_in_its_name(acl: Path, tmp_path: Path) -> None:
    names = convert(acl / "inputs/zoo/dtype", tmp_path)
    assert "Zoo.dt_uint1.1.0.1767261601146697.output.0.npy" in names
    assert np.load(tmp_path / "Zoo.dt_uint1.1.0.1767261601146697.output.0.npy").tolist() == [1, 0]
    assert len(names) == 24


def test_types_that_the_older_tool_refuses(acl: Path, tmp_path: Path) -> None:
    done = run("convert", acl / "inputs/zoo/dtype_unsupported_by_peer", "-o", tmp_path, "--to", "npy")
    assert done.returncode == 2
    assert sum("raw bytes are kept" in line for line in done.stderr.splitlines()) == 2  # text and variant
    # Two elements to a byte, the lower half first.
    assert np.load(next(tmp_path.glob("*int4*"))).tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
    assert np.load(next(tmp_path.glob("*float4*"))).tolist() == [0, 0, 0.5, 0, 1, 0, 1.5, 0]


def counted(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# The array that each case was made from, its axes, and what it becomes in a layout: (case, layout) → axes.
ARRAYS = {
    "NC1HWC0_c20": (counted(2, 3, 4, 20), "NHWC"),
    "NC1HWC0_c16": (counted(1, 2, 2, 16), "NHWC"),
    "NC1HWC0_c0_32_int8": ((counted(1, 2, 2, 40) % 127).astype(np.int8), "NHWC"),
    "FZ_hwcn": (counted(3, 3, 20, 18), "HWCN"),
    "FZ_nchw": (counted(18, 20, 3, 3), "NCHW"),
    "NDC1HWC0": (counted(2, 20, 3, 4, 5), "NCDHW"),
    "NHWC": (counted(2, 3, 4, 5), "NHWC"),
    "NCHW": (counted(2, 3, 4, 5), "NCHW"),
    "HWCN": (counted(2, 3, 4, 5), "HWCN"),
}
ORDERS = {4: ["NCHW", "NHWC", "HWCN", "CHWN"], 5: ["NCDHW", "NDHWC", "DHWCN"]}


@pytest.mark.parametrize("case", ARRAYS)
def test_every_layout_of_the_archive_becomes_every_order_of_axes(
    acl: Path, tmp_path: Path, case: str
) -> None:
    array, axes = ARRAYS[case]
    (source,) = (acl / "inputs/zoo/format").glob(f"Fmt.{case}.*")
    for order in ORDERS[array.ndim]:
        expected = array.transpose([axes.index(axis) for axis in order])
        target = tmp_path / order
        done = run("convert", source, "-o", target / "one.npy", "-f", order)
        assert done.returncode == 0, done.stderr
        assert np.array_equal(np.load(target / "one.npy"), expected), order


@pytest.mark.parametrize(
    ("case", "shape"),
    [("NZ_2d", (18, 37)), ("NZ_3d", (3, 18, 37)), ("NZ_4d", (2, 3, 16, 20)), ("NZ_exact", (32, 16))],
)
def test_matrices_in_blocks_become_plain(
    acl: Path, tmp_path: Path, case: str, shape: tuple[int, ...]
) -> None:
    (source,) = (acl / "inputs/zoo/format").glob(f"Fmt.{case}.*")
    assert run("convert", source, "-o", tmp_path / "nd.npy", "-f", "ND").returncode == 0
    assert np.array_equal(np.load(tmp_path / "nd.npy"), counted(*shape))


# What the older tool cuts along the wrong axes, or does not unfold: the archive's README names them.
WRONG = (
    ["NC1HWC0_c20__to__NCHW", "NC1HWC0_c20__to__HWCN", "NHWC__to__NCHW", "NHWC__to__HWCN", "NCHW__to__NHWC"]
    + ["HWCN__to__NCHW", "HWCN__to__NHWC", "NZ_4d__to__ND", "HWCN_group2__to__FRACTAL_Z"]
    + [f"{order}__to__FRACTAL_Z" for order in ("NCHW", "NHWC", "HWCN")]
)


def test_layouts_that_the_older_tool_converts_rightly(acl: Path, tmp_path: Path) -> None:
    checked = 0
    for folder in sorted((acl / "expected/format").iterdir()):
        if folder.name in WRONG:
            continue
        case, layout = folder.name.split("__to__")
        (source,) = (acl / "inputs/zoo/format").glob(f"Fmt.{case}.*")
        (expected,) = folder.iterdir()
        place = tmp_path / folder.name / "in"
        place.mkdir(parents=True)
        shutil.copy(source, place)
        names = convert(place, tmp_path / folder.name / "out", "-f", layout)
        assert names == [expected.name]
        assert np.array_equal(np.load(tmp_path / folder.name / "out" / names[0]), np.load(expected)), folder
        checked += 1
    assert checked == 13


@pytest.mark.parametrize("folder", ["inputs/zoo/opdebug", "inputs/precision_data/overflow"])
def test_op_debug_files_become_the_documents_of_the_older_tool(
    acl: Path, tmp_path: Path, folder: str
) -> None:
    assert run("convert", acl / folder, "-o", tmp_path, "--to", "npy").returncode == 0
    case = "opdebug" if "zoo" in folder else "overflow_cmd"
    documents = sorted((acl / "expected" / case).glob("*.json"))
    assert documents
    for expected in documents:
        (mine,) = tmp_path.rglob(expected.name)
        assert mine.read_text() == expected.read_text()


def test_the_operator_of_an_overflow_and_its_tensors(acl: Path) -> None:
    done = run("overflow", acl / "inputs/precision_data/overflow", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["device_overflows"]
    assert [(one["op_name"], one["unit"], one["status"], one["task_id"]) for one in found] == [
        ("Relu.LeNet_conv2_Relu.0.forward", "AI Core", [0x120], 16),
        ("MatMulV2.LeNet_fc1_MatMul.0.forward", "L2 Atomic Add", [0x10000], 20),
    ]
    assert found[0]["meanings"] == [
        "a floating-point computation overflowed",
        "a conversion of float32 or int32 to float16 overflowed",
    ]
    output = found[0]["tensors"][1]
    assert (output["shape"], output["max"], output["min"], output["inf"]) == (
        [2, 1, 6, 6, 16],
        "Infinity",
        65504.0,
        1,
    )
    text = run("overflow", acl / "inputs/precision_data/overflow").stdout
    assert "AI Core detected an overflow, status 0x120" in text


def test_the_execution_nearest_to_an_overflow_is_blamed(acl: Path, tmp_path: Path) -> None:
    folder = tmp_path / "overflow"
    shutil.copytree(acl / "inputs/precision_data/overflow", folder)
    (relu,) = folder.rglob("Relu.LeNet_conv2_Relu.*")
    *parts, time = relu.name.split(".")
    # The task ran a second before too.
    shutil.copy(relu, relu.with_name(".".join([*parts, str(int(time) - 1_000_000)])))
    found = json.loads(run("overflow", folder, "--json").stdout)["device_overflows"]
    assert found[0]["op_name"] == "Relu.LeNet_conv2_Relu.1.forward"


def test_every_unit_of_op_debug_files_is_named(acl: Path) -> None:
    done = run("overflow", acl / "inputs/zoo/opdebug", "--json")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["device_overflows"]
    units = ["DHA Atomic Add", "L2 Atomic Add", "AI Core", "AIC", "AIV", "AICPU", "SDMA", "AIC", "AIV"]
    assert [one["unit"] for one in found] == units
    assert all(one["meanings"] for one in found)
    assert found[7]["status"] == [0x20, 0, 0x100, 0]


def test_two_devices_are_paired_whatever_their_tasks_and_times(acl: Path, tmp_path: Path) -> None:
    other = tmp_path / "20260202130000/1/ge_default_20260202130001_9/2/0"
    other.mkdir(parents=True)
    for path in (acl / NET).iterdir():
        kind, name, task, stream, time = path.name.split(".")
        shutil.copy(path, other / f"{kind}.{name}.{int(task) + 100}.{int(stream) + 1}.{int(time) + 77_000}")
    done = run("compare", acl / "inputs/precision_data/npu/debug_0", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["passed"] == 59


def test_operators_keep_their_names_in_a_folder_of_one_file_and_of_two_executions(
    acl: Path, tmp_path: Path
) -> None:
    (source,) = (acl / NET).glob("Relu.LeNet_fc1_Relu.*")
    shutil.copy(source, tmp_path)
    listed = run("ls", tmp_path).stdout
    assert "Relu.LeNet_fc1_Relu.0.forward" in listed
    shutil.copy(source, tmp_path / "Relu.LeNet_fc1_Relu.25.5.1767261602000000")
    listed = run("ls", tmp_path).stdout
    assert "Relu.LeNet_fc1_Relu.0.forward" in listed
    assert "Relu.LeNet_fc1_Relu.1.forward" in listed


def test_a_name_of_digits_without_its_table(acl: Path, tmp_path: Path) -> None:
    shutil.copy(acl / "inputs/zoo/mapping/16839245201148", tmp_path)
    (named,) = (acl / "inputs/zoo/mapping").glob("Add.short.*")
    shutil.copy(named, tmp_path)
    assert f"{'a' * 240}.0.forward" in run("ls", tmp_path).stdout


STATISTICS = "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Nan Count\n"


def test_files_of_statistics_are_compared(tmp_path: Path) -> None:
    for side, task, mean in (("a", 3, 0.5), ("b", 8, 0.5), ("c", 9, 0.75)):
        (tmp_path / side).mkdir()
        rows = f"Input,0,8,DT_FLOAT,ND,2,1,0,0.5,0\nOutput,0,8,DT_FLOAT,ND,2,1,0,{mean},0\n"
        name = f"Mul.layer_mul.{task}.0.1767261601{task:06}.csv"
        (tmp_path / side / name).write_text(STATISTICS + rows)
    listed = run("ls", tmp_path / "a").stdout
    assert "ACL dump, statistics, 1 call" in listed
    assert "Mul.layer_mul.0.forward" in listed
    assert run("compare", tmp_path / "a", tmp_path / "b").returncode == 0
    differs = run("compare", tmp_path / "a", tmp_path / "c")
    assert (differs.returncode, "Mul.layer_mul.0.forward" in differs.stdout) == (1, True), differs.stdout
