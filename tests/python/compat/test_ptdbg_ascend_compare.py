"""``compare`` of the face of ptdbg_ascend: its files, columns, lines and exit codes."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden
from ptdbg_files import write_rank
from ulpscope.compat.ptdbg_ascend import compare

HEADER = (
    "NPU Name,Bench Name,NPU Tensor Dtype,Bench Tensor Dtype,NPU Tensor Shape,Bench Tensor Shape,Cosine,"
    "MaxAbsErr,MaxRelativeErr,NPU max,NPU min,NPU mean,Bench max,Bench min,Bench mean,"
    "Accuracy Reached or Not,Err_message"
)
COLUMNS = next(csv.reader([HEADER]))


def param(npu: Path, bench: Path, **more: Any) -> dict[str, Any]:
    """The four paths of two .pkl files with their data beside them."""
    return {
        "npu_pkl_path": str(npu),
        "bench_pkl_path": str(bench),
        "npu_dump_data_dir": str(npu.with_suffix("")),
        "bench_dump_data_dir": str(bench.with_suffix("")),
    } | more


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


def only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.rglob(pattern))
    assert len(found) == 1, f"{pattern} in {folder}: {found}"
    return found[0]


def table(folder: Path) -> list[dict[str, str]]:
    with only(folder, "compare_result_*.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_files_columns_and_advice(tmp_path: Path, output: Path, capsys: pytest.CaptureFixture[str]) -> None:
    npu, bench = write_rank(tmp_path / "npu/rank0", factor=3), write_rank(tmp_path / "gpu/rank0")
    compare(param(npu, bench), str(output))
    names = sorted(path.name for path in output.iterdir())
    assert re.fullmatch(r"advisor_\d{14}\.txt compare_result_\d{14}\.csv", " ".join(names)), names
    rows = table(output)
    assert list(rows[0]) == COLUMNS
    assert [row["NPU Name"] for row in rows] == [
        "Functional_relu_0_forward_input.0",
        "Functional_relu_0_forward_output",
        "Torch_norm_1_forward_input.0",
        "Torch_norm_1_forward_output",
    ]
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Yes", "Yes", "Yes", "No"]
    advice = only(output, "advisor_*.txt").read_text()
    assert advice.startswith("Line: 5\nSuspect Nodes: Torch_norm_1_forward_output\nExpert Advice: ")
    shown = capsys.readouterr().out
    for text in advice.splitlines():
        assert re.search(rf"^\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\(\d+\)-\[INFO\]{re.escape(text)}$", shown, re.M)
    assert "[INFO]The advisor summary is saved in: " in shown


def test_without_analysis_there_is_no_advice(
    tmp_path: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npu = write_rank(tmp_path / "npu/rank0")
    compare(param(npu, npu), str(output), auto_analyze=False)
    assert [path.suffix for path in output.iterdir()] == [".csv"]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("printed", [True, False])
def test_each_row_is_printed_on_request(
    tmp_path: Path, output: Path, capsys: pytest.CaptureFixture[str], printed: bool
) -> None:
    npu = write_rank(tmp_path / "npu/rank0")
    compare(param(npu, npu, is_print_compare_log=printed), str(output), auto_analyze=False)
    shown = capsys.readouterr().out.splitlines()
    row = "[Functional_relu_0_forward_output] Compare result: cosine 1.0, max_abs_err 0.000000000000"
    assert ("start compare: Functional_relu_0_forward_output" in shown) == printed
    assert any(line.startswith(row) for line in shown) == printed
    assert len(shown) == (8 if printed else 0)


def test_the_data_may_lie_elsewhere(tmp_path: Path, output: Path) -> None:
    """A stale folder beside the .pkl is not read."""
    npu = write_rank(tmp_path / "npu/rank0", factor=3)
    npu = write_rank(tmp_path / "npu/rank0", data=tmp_path / "disk/npu_data")
    bench = write_rank(tmp_path / "gpu/rank0", data=tmp_path / "disk/gpu_data")
    given = param(npu, bench)
    given["npu_dump_data_dir"] = str(tmp_path / "disk/npu_data")
    given["bench_dump_data_dir"] = str(tmp_path / "disk/gpu_data")
    compare(given, str(output))
    assert [row["Accuracy Reached or Not"] for row in table(output)] == ["Yes"] * 4
    assert {row["MaxAbsErr"] for row in table(output)} == {"0.000000000000"}


@pytest.mark.parametrize("stack_mode", [True, False])
def test_dumps_with_stacks_need_no_setting(
    tmp_path: Path, output: Path, capsys: pytest.CaptureFixture[str], stack_mode: bool
) -> None:
    npu = write_rank(tmp_path / "npu/rank0", "api_stack_", stacks=True)
    bench = write_rank(tmp_path / "gpu/rank0", "api_stack_", stacks=True)
    compare(param(npu, bench), str(output), stack_mode=stack_mode)
    rows = table(output)
    assert list(rows[0]) == [*COLUMNS, "NPU_Stack_Info"]
    assert "train.py" in rows[0]["NPU_Stack_Info"]
    assert rows[1]["NPU_Stack_Info"] == ""
    assert ("the result has the column NPU_Stack_Info" in capsys.readouterr().out) == (not stack_mode)


def test_fuzzy_matching_ignores_the_number_of_a_call(tmp_path: Path, output: Path) -> None:
    npu = write_rank(tmp_path / "npu/rank0", calls=("Functional_relu_3_forward",))
    bench = write_rank(tmp_path / "gpu/rank0", calls=("Functional_relu_0_forward",))
    compare(param(npu, bench), str(output), fuzzy_match=True)
    rows = table(output)
    assert [row["Bench Name"] for row in rows] == [
        "Functional_relu_0_forward_input.0",
        "Functional_relu_0_forward_output",
    ]
    assert all("Fuzzy matching data" in row["Err_message"] for row in rows)


def test_what_only_one_side_has_is_listed(
    tmp_path: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = ("Functional_relu_0_forward", "Torch_sin_0_forward", "Torch_norm_1_forward")
    bench = write_rank(tmp_path / "gpu/rank0", calls=calls)
    compare(param(write_rank(tmp_path / "npu/rank0"), bench), str(output))
    assert [row["Accuracy Reached or Not"] for row in table(output)] == ["Yes"] * 4
    assert any("only in the golden: Torch_sin_0_forward" in record.getMessage() for record in caplog.records)


def test_errors_that_pile_up_leave_every_row_paired(
    tmp_path: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = tuple(f"Torch_sin_{number}_forward" for number in range(6))
    npu, bench = (write_rank(tmp_path / side / "rank0", calls=calls) for side in ("npu", "gpu"))
    for number, call in enumerate(calls):
        for part in ("input.0", "output"):
            file = npu.with_suffix("") / f"{call}_{part}.npy"
            np.save(file, np.load(file) * np.float32(-10) ** number)
    compare(param(npu, bench), str(output))
    rows = table(output)
    assert [row["NPU Name"] for row in rows] == [row["Bench Name"] for row in rows]
    assert len(rows) == 2 * len(calls)
    assert [row["Accuracy Reached or Not"] for row in rows] == ["Yes"] * 2 + ["No"] * 10
    assert not caplog.records


def test_two_comparisons_in_one_second_keep_both_results(tmp_path: Path, output: Path) -> None:
    npu = write_rank(tmp_path / "npu/rank0")
    for _ in range(3):
        compare(param(npu, npu), str(output))
    assert len(list(output.glob("compare_result_*.csv"))) == 3
    assert len(list(output.glob("advisor_*.txt"))) == 3


def test_a_missing_npy_is_reported_and_the_rest_compared(
    tmp_path: Path, output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    npu, bench = write_rank(tmp_path / "npu/rank0"), write_rank(tmp_path / "gpu/rank0")
    (npu.with_suffix("") / "Functional_relu_0_forward_output.npy").unlink()
    compare(param(npu, bench), str(output))
    assert [row["Accuracy Reached or Not"] for row in table(output)].count("Yes") == 3
    assert any("Functional_relu_0_forward_output.npy" in record.getMessage() for record in caplog.records)


def change(**changes: Any) -> dict[str, Any]:
    return changes


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        (change(npu_pkl_path=None), 1, "input_param has no npu_pkl_path"),
        (change(npu_pkl_path="none.pkl"), 1, "none.pkl is an invalid file or non-exist."),
        (change(npu_pkl_path="."), 1, ". is an invalid file or non-exist."),
        (change(bench_pkl_path="empty.pkl"), 13, "dump file empty.pkl have empty line!"),
        (change(npu_dump_data_dir=None), 1, "input_param has no npu_dump_data_dir: statistics alone"),
        (change(bench_dump_data_dir="none"), 1, "The path none is not exist."),
        (change(bench_dump_data_dir="empty.pkl"), 1, "The path empty.pkl is not a directory."),
        (change(output_path="none"), 1, "The path none is not exist."),
        (change(output_path=None), 11, "Invalid input parameters"),
        (change(input_param=[]), 11, "Invalid input parameters"),
        (change(stack_mode="yes"), 11, "Invalid input parameters"),
        (change(auto_analyze=1), 11, "Params auto_analyze only support True or False."),
        (change(stack_mode=True), 17, "does not contain stack information, please turn off the stack_mode"),
        (change(bench_pkl_path="stack.pkl"), 17, "The dump mode of the two files is not same"),
        (change(npu_pkl_path="text.pkl"), 6, "text.pkl"),
    ],
)
def test_bad_values_end_the_script_with_the_code_of_the_tool(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    output: Path,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    npu = write_rank(Path("npu/rank0"))
    shutil.copy(write_rank(Path("stack/rank0"), "api_stack_", stacks=True), "stack.pkl")
    Path("empty.pkl").touch()
    Path("text.pkl").write_text("some text\n")
    arguments: dict[str, Any] = {"input_param": param(npu, npu), "output_path": str(output)}
    for name, value in changes.items():
        place = arguments["input_param"] if name in param(npu, npu) else arguments
        place[name] = value
    with pytest.raises(SystemExit) as ended:
        compare(**arguments)
    assert ended.value.code == code
    shown = capsys.readouterr().out
    assert text in shown
    assert shown.rstrip().endswith("-[ERROR]Compare failed. Please check the arguments and do it again!")
    assert not list(output.iterdir())


@pytest.mark.parametrize(
    ("case", "npu", "bench", "stack_mode"),
    [
        ("same", "all_base", "all_base", False),
        ("scale", "all_scale", "all_base", False),
        ("scale_stack", "stack_scale", "stack_base", True),
        ("scale_stack", "stack_scale", "stack_base", False),
    ],
)
def test_results_are_those_of_the_tool(
    tmp_path: Path, output: Path, case: str, npu: str, bench: str, stack_mode: bool
) -> None:
    """The dumps and results of ptdbg_ascend 4.0.T2, byte for byte, with the data moved elsewhere."""
    release = golden.unpack("ptdbg", tmp_path) / "v4.0.T2"
    given: dict[str, Any] = {"is_print_compare_log": False}
    for side, name in (("npu", npu), ("bench", bench)):
        pkl = only(release / "dumps" / name, "*.pkl")
        shutil.copytree(pkl.with_suffix(""), tmp_path / "moved" / side)
        given[f"{side}_pkl_path"] = str(pkl)
        given[f"{side}_dump_data_dir"] = str(tmp_path / "moved" / side)
    compare(given, str(output), stack_mode=stack_mode)
    theirs = release / "compare" / case
    assert only(output, "compare_result_*.csv").read_text() == only(theirs, "*.csv").read_text()
    assert only(output, "advisor_*.txt").read_text() == only(theirs, "advisor*.txt").read_text()
