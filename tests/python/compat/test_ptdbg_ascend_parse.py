"""``parse`` of the face of ptdbg_ascend, as a function and as a program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import golden
from ptdbg_files import write_rank
from ulpscope.compat.ptdbg_ascend import parse
from ulpscope.compat.ptdbg_ascend.exceptions import CompareException

EXPECTED = """
Statistic Info:
  [Torch_norm_1_forward_input.0][dtype: torch.float32][shape: [2, 4]][max: 8.0][min: 1.0][mean: 4.5]
  [Torch_norm_1_forward_output][dtype: torch.float32][shape: [2, 4]][max: 16.0][min: 2.0][mean: 9.0]
"""

TRACE = """
Trace back(Torch_norm_1_forward_stack_info):
  File "train.py", line 12, in <module>
    loss = model(x)
  File "/site/hook.py", line 58, in __call__
    result = self._call(*args)
"""


def program(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope.compat.ptdbg_ascend.parse", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_statistics_of_one_api(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pkl = write_rank(tmp_path / "rank0")
    parse(str(pkl), "Torch_norm_1_forward")
    assert capsys.readouterr().out == EXPECTED
    parse(pkl_file=pkl, module_name_prefix="Torch_norm_1_forward")
    parse(pkl, moudule_name_prefix="Torch_norm_1_forward")
    assert capsys.readouterr().out == EXPECTED * 2


def test_the_stack_follows_if_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parse(write_rank(tmp_path / "rank0", "api_stack_", stacks=True), "Torch_norm_1_forward")
    assert capsys.readouterr().out == EXPECTED + TRACE


def test_no_match_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parse(write_rank(tmp_path / "rank0"), "Torch_batch_normal_1_forward")
    shown = capsys.readouterr().out
    assert shown.endswith("has no API whose name begins with Torch_batch_normal_1_forward.\n")
    assert "[WARNING]" in shown


def test_bad_values_are_refused(tmp_path: Path) -> None:
    pkl = write_rank(tmp_path / "rank0")
    for prefix in (None, 3, ""):
        with pytest.raises(CompareException) as error:
            parse(pkl, prefix)  # type: ignore[arg-type]
        assert error.value.code == CompareException.INVALID_PARAM_ERROR
    with pytest.raises(TypeError, match="name"):
        parse(pkl, name="Torch")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "none.pkl", tmp_path / "empty", None):
        with pytest.raises(CompareException, match="is an invalid file or non-exist") as error:
            parse(path, "Torch")  # type: ignore[arg-type]
        assert error.value.code == CompareException.INVALID_PATH_ERROR


def test_lines_of_another_form_cannot_harm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = [
        "[" * 100_000,
        '["Torch_a_0_forward_input.0", 0, [], "torch.float32", [1], []]',
        '["Torch_a_0_forward_stack_info", [3, ["f"]]]',
        '["Torch_a_0_forward_\\u001b[2Joutput", 0, [], "torch.float32", [1], [NaN, Infinity, 1.5]]',
        '{"Torch_a": 1}',
        "\udcff not json",
    ]
    (tmp_path / "x.pkl").write_bytes("\n".join(hostile).encode("utf-8", "surrogateescape"))
    parse(tmp_path / "x.pkl", "Torch_a")
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "[Torch_a_0_forward_\\x1b[2Joutput]" in shown
    assert "[max: nan][min: inf][mean: 1.5]" in shown
    reported = [line for line in shown.splitlines() if "is not a line of a dump" in line]
    assert [line.split(": line ")[1].split()[0] for line in reported] == ["1", "5", "6"]


def test_as_a_program(tmp_path: Path) -> None:
    write_rank(tmp_path, "api_stack_", stacks=True)
    ended = program(tmp_path, "pk", "-f", "api_stack_dump.pkl", "-n", "Torch_norm_1_forward")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, EXPECTED + TRACE, "")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["pk", "-f", "none.pkl", "-n", "Torch"], "none.pkl"),
        (["pk", "-f", "none.pkl"], "-n"),
        (["vc", "-m", "a"], "the following arguments are required: -g/--golden_dump_path"),
        (["nothing"], "no such command"),
    ],
)
def test_what_the_program_cannot_do_is_said(tmp_path: Path, words: list[str], problem: str) -> None:
    ended = program(tmp_path, *words)
    assert ended.returncode == 2
    assert problem in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_real_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line that the tool's own shell printed for this API."""
    release = golden.unpack("ptdbg", tmp_path) / "v4.0.T2"
    pkl = next((release / "dumps" / "stack_base").rglob("*.pkl"))
    parse(pkl, "Functional_relu_0_forward")
    shown = capsys.readouterr().out
    theirs = (release / "parse_shell" / "out.txt").read_text(encoding="utf-8")
    entries = [line for line in shown.splitlines() if line.startswith("  [Functional_relu_0_forward")]
    assert len(entries) == 2
    for line in entries:
        assert line in theirs
    assert "Trace back(Functional_relu_0_forward_stack_info):" in shown
