"""``compare_distributed`` of the face of ptdbg_ascend: rank by rank, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ptdbg_files import write_rank
from ulpscope.compat.ptdbg_ascend import compare_distributed
from ulpscope.compat.ptdbg_ascend.exceptions import CompareException


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two dumps of two ranks; rank1 of the NPU is wrong."""
    monkeypatch.chdir(tmp_path)
    for rank, factor in ((0, 1.0), (1, 3.0)):
        write_rank(Path(f"npu/rank{rank}"), factor=factor)
        write_rank(Path(f"gpu/rank{rank}"))
    Path("output").mkdir()
    return tmp_path


def results(folder: Path) -> list[str]:
    """The tables, without their times."""
    return sorted(re.sub(r"\d{14}", "T", path.name) for path in folder.glob("output/compare_result*"))


def test_each_pair_of_ranks_has_a_table(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare_distributed("npu", "gpu", "output")
    assert results(folders) == ["compare_result_rank0-rank0_T.csv", "compare_result_rank1-rank1_T.csv"]
    wrong = next(folders.glob("output/compare_result_rank1-*.csv")).read_text()
    assert wrong.count(",No,") == 1
    assert next(folders.glob("output/compare_result_rank0-*.csv")).read_text().count(",No,") == 0
    assert len(list(folders.glob("output/advisor_*.txt"))) == 2
    # Rows are always printed here.
    assert "start compare: Torch_norm_1_forward_output" in capsys.readouterr().out


def test_ranks_are_paired_in_the_order_of_their_numbers(folders: Path) -> None:
    """rank2 comes before rank10; a process on a CPU has its own number, and one rank is enough."""
    for side, numbers in (("npu", (2, 10)), ("gpu", (3, 11))):
        for number in numbers:
            write_rank(Path(f"{side}_more/rank{number}"))
    compare_distributed("npu_more", "gpu_more", "output")
    assert results(folders) == ["compare_result_rank10-rank11_T.csv", "compare_result_rank2-rank3_T.csv"]
    write_rank(Path("cpu/rank4711"))
    write_rank(Path("one/rank0"))
    compare_distributed("one", "cpu", "output")
    assert "compare_result_rank0-rank4711_T.csv" in results(folders)


def test_the_optional_arguments_of_compare_are_taken(folders: Path) -> None:
    for side, number in (("npu", 3), ("gpu", 0)):
        calls = (f"Functional_relu_{number}_forward",)
        write_rank(Path(f"{side}_stack/rank0"), "api_stack_", stacks=True, calls=calls)
    compare_distributed(
        "npu_stack", "gpu_stack", "output", stack_mode=True, auto_analyze=False, fuzzy_match=True
    )
    table = next(folders.glob("output/compare_result_rank0-rank0_*.csv")).read_text()
    assert table.splitlines()[0].endswith(",NPU_Stack_Info")
    assert "Fuzzy matching data" in table
    assert not list(folders.glob("output/advisor*"))


def test_a_generated_script_in_a_rank_folder_is_tolerated(folders: Path) -> None:
    Path("npu/rank0/compare_data.py").write_text("from ptdbg_ascend import compare\n")
    compare_distributed("npu", "gpu", "output")
    assert len(results(folders)) == 2


def refusal(code: int, *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(CompareException) as error:
        compare_distributed(*arguments, **keywords)
    assert error.value.code == code
    return str(error.value)


def test_stray_files_are_refused(folders: Path) -> None:
    Path("gpu/notes.txt").touch()
    expected = (
        "dump_dir contains 'notes.txt'. Expected 'rank'. This name is not in the format of dump output. "
    )
    assert refusal(1, "npu", "gpu", "output").startswith(expected)
    Path("gpu/notes.txt").rename("gpu/rank2")
    assert "dump_dir contains 'rank2'" in refusal(1, "npu", "gpu", "output")
    Path("gpu/rank2").unlink()
    Path("gpu/rank2").symlink_to("rank0")
    assert "dump_dir contains 'rank2'" in refusal(1, "npu", "gpu", "output")
    assert not list(Path("output").iterdir())


def test_unequal_ranks_are_refused(folders: Path) -> None:
    write_rank(Path("gpu/rank2"))
    expected = "The number of ranks in the two runs are different. Unable to match the ranks. "
    assert refusal(1, "npu", "gpu", "output").startswith(expected)
    assert not list(Path("output").iterdir())


def test_a_rank_without_its_files_is_refused_before_anything_is_compared(folders: Path) -> None:
    write_rank(Path("npu/rank1"), "list_")
    assert "The names of pkl and directory do not match!" in refusal(6, "npu", "gpu", "output")
    for path in sorted(Path("npu/rank1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert refusal(9, "npu", "gpu", "output") == "No file is found in dump dir npu/rank1. "
    Path("npu/rank1/dump.pkl").touch()
    assert refusal(9, "npu", "gpu", "output") == "No directory is found in dump dir npu/rank1. "
    Path("npu/rank1/dump").mkdir()
    assert refusal(13, "npu", "gpu", "output") == "dump file npu/rank1/dump.pkl have empty line!"
    assert refusal(1, "none", "gpu", "output") == "The path none is not exist."
    assert not list(Path("output").iterdir())


def test_other_arguments(folders: Path) -> None:
    assert "Argument 'suffix' is not supported" in refusal(11, "npu", "gpu", "output", suffix="_x")
    with pytest.raises(TypeError, match="stack_moed"):
        compare_distributed("npu", "gpu", "output", stack_moed=True)
    with pytest.raises(SystemExit) as ended:
        compare_distributed("npu", "gpu", "no_output")
    assert ended.value.code == 1
    with pytest.raises(SystemExit) as ended:
        compare_distributed("npu", "gpu", "output", stack_mode=True)
    assert ended.value.code == 17
    assert not list(Path("output").iterdir())
