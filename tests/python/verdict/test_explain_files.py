"""Explanations of files without calls, and of dumps that were captured in different ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import ulpscope
from dumps import run
from explanations import sections


def checkpoints(folder: Path) -> tuple[Path, Path]:
    """Two checkpoints: four of nine tensors differ, and the fourth of them most."""
    torch.manual_seed(0)
    old = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 8)).state_dict()
    new = {name: value.clone() for name, value in old.items()}
    for name in ("0.weight", "1.running_var", "2.weight"):
        new[name] += 1e-4
    new["2.bias"] *= 1.5
    torch.save(old, folder / "old.pt")
    torch.save(new, folder / "new.pt")
    return folder / "new.pt", folder / "old.pt"


def test_two_checkpoints_are_explained_without_calls(tmp_path: Path) -> None:
    new, old = checkpoints(tmp_path)
    result = ulpscope.compare(new, old)
    assert result.reason == "4 of 9 tensors differ, the first is 0.weight"
    said = sections(result.explain())
    assert said["What broke"] == ["4 of 9 tensors differ. 2.bias differs most."]
    assert said["Where"] == ["entry   2.bias"]
    assert said["How large"][0].startswith("Relative distance 0.5, largest error 0.0")
    others = [line.partition(": relative distance ") for line in said["Other divergences"]]
    assert sorted(name for name, _, _ in others) == ["0.weight", "1.running_var", "2.weight"]
    distances = [float(text.partition(",")[0]) for _, _, text in others]
    assert distances == sorted(distances, reverse=True)
    assert said["Next"] == [
        "See which elements differ, and by how much:",
        f"  ulpscope diff {new} {old}",
        "If these are checkpoints of two training runs, compare earlier ones, back to the last two that "
        "agree. Then record the steps after those on both sides, and compare the dumps:",
        "  ulpscope run --dump-path NEW_DUMP --level mix --task tensor --step FIRST-LAST -- YOUR_SCRIPT.py",
    ]
    assert "Downstream" not in said
    # Nothing is said that a file without calls cannot have.
    without_command = result.explain().split("Next:")[0]
    assert not re.search(r"\bcalls?\b|pass|seed|typically|runs", without_command), result.explain()
    chinese = result.explain(lang="zh")
    assert "9 个张量中有 4 个不同。差异最大的是 2.bias。" in chinese
    assert "随机" not in chinese


def test_one_tensor_of_a_checkpoint(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(4), "b": torch.ones(4)}, tmp_path / "old.pt")
    torch.save({"a": torch.ones(4), "b": torch.full((4,), 2.0)}, tmp_path / "new.pt")
    result = ulpscope.compare(tmp_path / "new.pt", tmp_path / "old.pt")
    assert result.reason == "b differs, the only one of 2 tensors"
    assert sections(result.explain())["What broke"] == ["1 of 2 tensors differs: b."]


def recorded(folder: Path, level: str, factor: float = 1.0) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(folder, model=model, level=level, task="tensor") as capture:
        for _ in range(2):
            optimizer.zero_grad()
            (model(torch.ones(2, 8)) * factor).sum().backward()
            optimizer.step()
            capture.step()
    return folder


@pytest.mark.parametrize(("levels", "captured_at"), [(("mix", "L1"), "mix, the golden at level L1")])
def test_different_levels_are_said_once_and_are_no_fault(
    tmp_path: Path, levels: tuple[str, str], captured_at: str
) -> None:
    target = recorded(tmp_path / "target", levels[0], factor=1.5)
    golden = recorded(tmp_path / "golden", levels[1])
    ran = run("compare", target, golden, "-o", tmp_path / "out")
    assert ran.stderr.count(f"the target was captured at level {captured_at}") == 1, ran.stderr
    assert "golden was captured at a level that does not record it" in ran.stdout
    assert "golden never makes a call" not in ran.stdout
    said = sections(run("explain", tmp_path / "out").stdout)
    assert said["What broke"] == ["Tensor.__mul__.0 is called with input.1=1.5 against 1 in the golden."]
    told = [line for line in said["Limitations"] if "level" in line]
    assert told == [
        f"Note: the target was captured at level {captured_at}: "
        "what one level leaves out has no counterpart; capture both sides at the same level"
    ]


def test_a_table_of_steps_is_called_so(tmp_path: Path) -> None:
    target, golden = recorded(tmp_path / "target", "L1", factor=1.5), recorded(tmp_path / "golden", "L1")
    out = run("compare", target, golden).stdout
    assert "\nsteps, worst first\nstep " in out
    assert "\ncalls by step" in out
    assert "rank" not in out


def test_the_place_of_a_row_names_the_sheet(tmp_path: Path) -> None:
    target, golden = recorded(tmp_path / "target", "L1", factor=1.5), recorded(tmp_path / "golden", "L1")
    run("compare", target, golden, "-o", tmp_path / "out")
    text = run("explain", tmp_path / "out").stdout
    found = re.search(r"entry   Tensor.__mul__.0.forward.output.0 \(line (\d+) of (\S+)\)", text)
    assert found, text
    line, sheet = found.groups()
    row = (tmp_path / "out" / sheet).read_text().splitlines()[int(line) - 1]
    assert row.startswith("Tensor.__mul__.0.forward,output.0,")


def test_notes_are_in_the_language_of_the_explanation(tmp_path: Path) -> None:
    target, golden = recorded(tmp_path / "target", "L1"), recorded(tmp_path / "golden", "L1")
    noise = recorded(tmp_path / "noise", "L1")
    result = ulpscope.compare(target, golden, noise=noise)
    english = sections(result.explain())["Limitations"]
    assert any("the noise dump is equal to the golden bit for bit" in line for line in english)
    chinese = [line for line in result.explain(lang="zh").splitlines() if "注：" in line]  # noqa: RUF001
    assert len(chinese) == len([line for line in english if line.startswith("Note:")])
    assert any("噪声数据与标杆逐位相同" in line for line in chinese)
    for line in chinese:
        # Names, paths and options are the same in every language; words are not.
        words = line.replace(str(tmp_path), "")
        assert not re.search(r"\b(the|of|is|and|calls|at)\b", words), line
