"""Comparing two dumps: what is found, what is said of it, how it ends."""

from __future__ import annotations

import csv
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import openpyxl
import pandas
import pytest
import torch

import ulpscope
from dumps import chain, write_rank

PROGRAM = [sys.executable, "-m", "ulpscope"]


def run(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    """The command, as a user runs it."""
    return subprocess.run([*PROGRAM, *map(str, args)], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def read_csv(folder: Path) -> list[dict[str, str]]:
    """The rows of the only sheet in a folder."""
    [path] = folder.glob("compare_result_*.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A golden run, and the same with the third linear layer 1 % off."""
    write_rank(tmp_path / "golden", chain(6))
    write_rank(tmp_path / "target", chain(6, fault={3: 1.01}))
    return tmp_path / "target", tmp_path / "golden"


def test_equal_runs_agree(tmp_path: Path) -> None:
    write_rank(tmp_path / "a", chain(4))
    write_rank(tmp_path / "b", chain(4))
    result = ulpscope.compare(tmp_path / "a", tmp_path / "b")
    assert result.ok
    assert result.first_divergence is None
    assert {row["verdict"] for row in result.rows} == {"equal"}
    ran = run("compare", tmp_path / "a", tmp_path / "b")
    assert ran.returncode == 0
    assert "AGREE" in ran.stdout


def test_the_faulty_call_is_named(pair: tuple[Path, Path]) -> None:
    result = ulpscope.compare(*pair)
    assert not result.ok
    first = result.first_divergence
    assert first is not None
    assert first.call == "Functional.linear.3.forward"
    assert first.kind == "diverged here"
    assert first.entry == "Functional.linear.3.forward.output.0"
    assert 0.5 < first.confidence <= 1
    assert run("compare", *pair).returncode == 1


def test_a_wrong_weight_is_an_origin(tmp_path: Path) -> None:
    golden = chain(4)
    target = []
    for name, inputs, outputs in golden:
        if name == "Functional.linear.2.forward":
            inputs = [inputs[0], inputs[1] * 1.05, None]
            outputs = [torch.nn.functional.linear(inputs[0], inputs[1])]
        target.append((name, inputs, outputs))
    write_rank(tmp_path / "golden", golden)
    write_rank(tmp_path / "target", target)
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert (first.call, first.kind) == ("Functional.linear.2.forward", "origin differs")
    assert first.entry == "Functional.linear.2.forward.input.1"


def test_metrics_are_those_of_numpy(pair: tuple[Path, Path]) -> None:
    target, golden = pair
    rows = {row["target_name"]: row for row in ulpscope.compare(target, golden).rows}
    name = "Functional.gelu.3.forward.output.0"
    one, other = (
        np.asarray(ulpscope.load(side / "dump_tensor_data" / f"{name}.pt"), np.float64) for side in pair
    )
    row = rows[name]
    assert row["euclid"] == pytest.approx(np.linalg.norm(one - other), rel=1e-12)
    assert row["max_abs"] == np.abs(one - other).max()
    assert row["rel_l2"] == pytest.approx(np.linalg.norm(one - other) / np.linalg.norm(other), rel=1e-12)
    cosine = one.ravel() @ other.ravel() / np.linalg.norm(one) / np.linalg.norm(other)
    assert row["cosine"] == pytest.approx(cosine, rel=1e-12)
    assert row["rmse"] == pytest.approx(np.sqrt(((one - other) ** 2).mean()), rel=1e-12)


def test_bf16_against_fp32_agrees_within_its_precision(tmp_path: Path) -> None:
    write_rank(tmp_path / "golden", chain(6))
    write_rank(tmp_path / "bf16", chain(6, dtype=torch.bfloat16))
    result = ulpscope.compare(tmp_path / "bf16", tmp_path / "golden")
    assert result.ok, result.first_divergence
    assert result.summary["paired"] == {"exact": 13}
    assert any(row["verdict"] == "close" for row in result.rows)


def test_one_extra_call_does_not_shift_the_rest(tmp_path: Path) -> None:
    def adds(extra: bool) -> list[tuple[str, list[torch.Tensor], list[torch.Tensor]]]:
        x = torch.linspace(0, 1, 24).reshape(4, 6)
        calls = []
        for layer in range(6):
            for amount in (0, 1) if extra and layer == 2 else (1,):
                y = x + amount
                number = sum(name.startswith("Tensor.__add__") for name, _, _ in calls)
                calls.append((f"Tensor.__add__.{number}.forward", [x], [y]))
                x = y
            x = torch.nn.functional.pad(y, (0, 1))
            calls.append((f"Functional.pad.{layer}.forward", [y], [x]))
        return calls

    write_rank(tmp_path / "golden", adds(extra=False))
    write_rank(tmp_path / "target", adds(extra=True))
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    lone = [name for side, name, _ in result.partnerless]
    assert len(lone) == 1
    assert lone[0].startswith("Tensor.__add__")
    assert result.summary["failed"] == 0, [row for row in result.rows if row["verdict"] == "differs"]
    assert result.summary["paired"]["aligned"] >= 3
    # Nothing differs in value, but the two are not the same.
    assert result.agreement == "differ"
    assert {side for side, _, _ in result.partnerless} == {"target"}


def test_statistics_are_compared_where_one_side_has_no_tensors(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    write_rank(tmp_path / "statistics", chain(6), tensors=False)
    result = ulpscope.compare(pair[0], tmp_path / "statistics")
    bases = {row["basis"] for row in result.rows}
    assert bases == {"statistics", "value"}
    assert result.first_divergence is not None
    assert result.first_divergence.call == "Functional.linear.3.forward"


def test_nan_on_one_side_is_found(tmp_path: Path) -> None:
    calls = chain(3)
    name, inputs, [output] = calls[2]
    broken = output.clone()
    broken[1, 3] = float("nan")
    write_rank(tmp_path / "golden", calls)
    write_rank(tmp_path / "target", [*calls[:2], (name, inputs, [broken]), *calls[3:]])
    first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
    assert first is not None
    assert (first.call, first.kind) == (name, "non-finite born here")


def test_nan_everywhere_is_no_agreement(tmp_path: Path) -> None:
    nan = torch.full((3, 4), float("nan"))
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [("Functional.relu.0.forward", [nan], [nan])])
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
    assert ran.returncode == 2
    assert {row["verdict"] for row in read_csv(tmp_path / "out")} == {"both NaN"}


def test_infinities_of_a_mask_are_values_like_any_other(tmp_path: Path) -> None:
    mask = torch.full((4, 4), float("-inf")).triu(1)
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(3)) + mask
    wrong = scores.clone()
    wrong[2, 1] += 1
    for side, values in (("golden", scores), ("same", scores), ("wrong", wrong)):
        for tensors in (True, False):
            calls = [("Tensor.masked_fill.0.forward", [3], [values])]
            write_rank(tmp_path / f"{side}_{tensors}", calls, tensors=tensors)
    assert ulpscope.compare(tmp_path / "same_True", tmp_path / "golden_True").ok
    assert ulpscope.compare(tmp_path / "same_False", tmp_path / "golden_False").ok
    result = ulpscope.compare(tmp_path / "wrong_True", tmp_path / "golden_True")
    assert result.first_divergence is not None
    assert result.first_divergence.call == "Tensor.masked_fill.0.forward"


def test_what_cannot_be_judged_is_no_agreement(tmp_path: Path) -> None:
    """One equal number beside them does not make two runs agree."""
    nan = torch.tensor([1.0, float("nan"), 2.0])
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [("Functional.relu.0.forward", [torch.ones(3)], [nan])])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert (result.agreement, result.summary["failed"], result.summary["passed"]) == ("incomplete", 0, 1)
    worse = torch.tensor([1.0, float("nan"), 3.0])
    write_rank(tmp_path / "worse", [("Functional.relu.0.forward", [torch.ones(3)], [worse])])
    assert ulpscope.compare(tmp_path / "worse", tmp_path / "golden").agreement == "differ"


def test_a_tensor_that_one_side_lacks_is_a_difference(tmp_path: Path) -> None:
    x = torch.ones(3)
    write_rank(tmp_path / "target", [("Torch.split.0.forward", [x], [x, x])])
    write_rank(tmp_path / "golden", [("Torch.split.0.forward", [x], [x])])
    result = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    assert result.agreement == "differ"
    [(side, name, _)] = result.partnerless
    assert (side, name) == ("target", "Torch.split.0.forward.output.1")


def test_a_scalar_loss_is_judged(tmp_path: Path) -> None:
    write_rank(tmp_path / "golden", [("Tensor.sum.0.forward", [], [torch.tensor(2.5)])])
    write_rank(tmp_path / "same", [("Tensor.sum.0.forward", [], [torch.tensor(2.5)])])
    write_rank(tmp_path / "other", [("Tensor.sum.0.forward", [], [torch.tensor(2.6)])])
    assert ulpscope.compare(tmp_path / "same", tmp_path / "golden").ok
    assert not ulpscope.compare(tmp_path / "other", tmp_path / "golden").ok


def test_empty_dumps_are_not_in_agreement(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [])
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "nothing could be compared" in ran.stdout


def test_a_missing_tensor_file_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    gone = tmp_path / "target" / "dump_tensor_data" / "Functional.gelu.1.forward.output.0.pt"
    gone.unlink()
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
    assert ran.returncode == 2
    assert "Functional.gelu.1.forward.output.0.pt" in ran.stderr
    assert "No such file" in ran.stderr
    [row] = [
        row
        for row in read_csv(tmp_path / "out")
        if row["target_name"].startswith("Functional.gelu.1.forward.output")
    ]
    assert row["basis"] == "statistics"


def test_a_dump_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    path = tmp_path / "target" / "dump.json"
    text = path.read_text()
    path.write_text(text[: text.index("Functional.gelu.2.forward")])
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "--json")
    assert ran.returncode == 2
    assert "dump.json" in ran.stderr
    assert "truncated" in ran.stderr
    summary = json.loads(ran.stdout)["summary"]
    assert summary["only_in_golden"] == 2
    assert summary["problems"] == 1


def test_unreadable_permissions(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(2))
    (tmp_path / "target" / "dump.json").chmod(0)
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "ermission denied" in ran.stderr


def test_nothing_there(tmp_path: Path) -> None:
    ran = run("compare", tmp_path / "absent", tmp_path / "absent too")
    assert ran.returncode == 2
    assert "absent" in ran.stderr
    with pytest.raises(FileNotFoundError):
        ulpscope.compare(tmp_path / "absent", tmp_path / "absent too")


def limit_file_size() -> None:
    """What a full disk looks like to a program: writing fails half-way."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("kind", ["csv", "xlsx", "json"])
def test_a_full_disk_ends_in_a_message_and_leaves_nothing(
    pair: tuple[Path, Path], tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "out"
    ran = run("compare", *pair, "-o", out, "--format", kind, preexec_fn=limit_file_size)
    assert ran.returncode == 2
    assert "File too large" in ran.stderr
    assert "panicked" not in ran.stderr
    assert not [path for path in out.iterdir() if path.suffix == f".{kind}"]


class TestRanks:
    def write(
        self, folder: Path, ranks: list[int], faults: dict[int, dict[int, float]] | None = None
    ) -> Path:
        for rank in ranks:
            write_rank(folder / "step0" / f"rank{rank}", chain(3, seed=rank, fault=(faults or {}).get(rank)))
        return folder

    def test_ranks_are_paired_by_number(self, tmp_path: Path) -> None:
        golden = self.write(tmp_path / "golden", [0, 2, 10])
        target = self.write(tmp_path / "target", [0, 2, 10], {10: {1: 1.5}})
        ran = run("compare", target, golden, "-o", tmp_path / "out")
        assert ran.returncode == 1
        names = sorted(
            path.name.rsplit("_", 1)[0] for path in (tmp_path / "out").glob("compare_result_*.csv")
        )
        assert names == [
            "compare_result_rank0-rank0",
            "compare_result_rank10-rank10",
            "compare_result_rank2-rank2",
        ]
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert [rank["target"] for rank in result["ranks"]] == ["rank0", "rank2", "rank10"]
        assert [rank["failed"] > 0 for rank in result["ranks"]] == [False, False, True]
        assert result["first_divergence"]["rank"] == "rank10"
        assert result["first_divergence"]["call"] == "Functional.linear.1.forward"

    def test_a_rank_too_few_is_reported(self, tmp_path: Path) -> None:
        golden = self.write(tmp_path / "golden", [0, 1])
        target = self.write(tmp_path / "target", [0, 1, 2])
        ran = run("compare", target, golden)
        assert ran.returncode == 1
        assert "rank2 is only in the target" in ran.stderr

    def test_chosen_ranks_only(self, tmp_path: Path) -> None:
        golden = self.write(tmp_path / "golden", [0, 1])
        target = self.write(tmp_path / "target", [0, 1], {1: {0: 2.0}})
        assert ulpscope.compare(target, golden, rank=0).ok
        assert not ulpscope.compare(target, golden, rank=[0, 1]).ok
        assert run("compare", target, golden, "--rank", "0").returncode == 0
        ran = run("compare", target, golden, "--rank", "7")
        assert ran.returncode == 2
        assert "rank 7" in ran.stderr

    def test_merge_puts_ranks_side_by_side(self, tmp_path: Path) -> None:
        golden = self.write(tmp_path / "golden", [0, 2, 10])
        target = self.write(tmp_path / "target", [0, 2, 10], {10: {1: 1.5}})
        run("compare", target, golden, "-o", tmp_path / "out")
        ran = run(
            "merge",
            tmp_path / "out",
            "--filter",
            "linear.1.forward.output",
            "--metric",
            "rel_l2",
            "-o",
            tmp_path / "merged.csv",
        )
        assert ran.returncode == 0, ran.stderr
        with (tmp_path / "merged.csv").open(newline="") as file:
            [row] = list(csv.DictReader(file))
        assert list(row) == ["name", "metric", "rank0", "rank2", "rank10"]
        assert row["metric"] == "rel_l2"
        assert (float(row["rank0"]), float(row["rank2"])) == (0, 0)
        assert float(row["rank10"]) == pytest.approx(0.5, rel=1e-6)
        ran = run("merge", tmp_path / "out", "--metric", "nonsense")
        assert ran.returncode == 2
        assert "rel_l2" in ran.stderr


class TestOutputs:
    def test_rows_are_the_same_in_csv_xlsx_and_python(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        result = ulpscope.compare(*pair)
        result.to_csv(tmp_path / "rows.csv")
        result.to_xlsx(tmp_path / "rows.xlsx")
        with (tmp_path / "rows.csv").open(newline="") as file:
            from_csv = list(csv.DictReader(file))
        sheet = openpyxl.load_workbook(tmp_path / "rows.xlsx").active
        assert sheet is not None
        [header, *cells] = list(sheet.iter_rows())
        assert [cell.value for cell in header] == result.columns == list(from_csv[0])
        assert len(cells) == len(from_csv) == len(result.rows)
        assert sheet.freeze_panes == "A2"
        assert sheet.auto_filter.ref
        for row, line, text in zip(result.rows, cells, from_csv, strict=True):
            assert row["rel_l2"] == line[result.columns.index("rel_l2")].value
            assert text["rel_l2"] == ("" if row["rel_l2"] is None else repr(row["rel_l2"]))
            filled = line[0].fill.fgColor.rgb == "FFFF0000"
            assert filled == (row["verdict"] == "differs")

    def test_the_result_document(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        ran = run("compare", *pair, "-o", tmp_path / "out", "--json")
        printed = json.loads(ran.stdout)
        written = json.loads((tmp_path / "out" / "result.json").read_text())
        assert printed == written
        assert printed["schema"] == "ulpscope.compare/1"
        assert printed["ok"] is False
        assert printed["first_divergence"]["call"] == "Functional.linear.3.forward"
        rows = read_csv(tmp_path / "out")
        assert printed["summary"]["rows"] == len(rows)
        failing = [row for row in rows if row["verdict"] == "differs"]
        assert printed["summary"]["failed"] == len(failing)
        assert [row["target_name"] for row in printed["ranks"][0]["rows_to_look_at"]] == [
            row["target_name"] for row in failing
        ]
        assert rows[printed["first_divergence"]["line"] - 2] == failing[0]

    def test_the_advisor_names_row_and_reason(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        run("compare", *pair, "-o", tmp_path / "out")
        [path] = (tmp_path / "out").glob("advisor_*.txt")
        text = path.read_text()
        assert "Suspect Nodes: Functional.linear.3.forward" in text
        assert "Why: Functional.linear.3.forward.output.0" in text

    def test_pandas(self, pair: tuple[Path, Path]) -> None:
        result = ulpscope.compare(*pair)
        frame = result.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame.columns) == result.columns
        assert len(frame) == len(result.rows)

    def test_modules_and_code_lines(self, tmp_path: Path) -> None:
        stack = [
            "File /env/site-packages/torch/nn/functional.py, line 125, in forward, \n return linear(input)",
            "File /home/me/model.py, line 48, in forward, \n x = self.fc(x)",
        ]
        name = "Functional.linear.1.forward"
        for side, fault in (("golden", None), ("target", {1: 1.2})):
            write_rank(
                tmp_path / side,
                chain(2, fault=fault),
                stacks={name: stack},
                parents={name: "Module.fc.Linear.forward.0"},
            )
        first = ulpscope.compare(tmp_path / "target", tmp_path / "golden").first_divergence
        assert first is not None
        assert first.module == "Module.fc.Linear.forward.0"
        assert first.code == "/home/me/model.py:48 forward: x = self.fc(x)"
        assert first.stack == stack

    def test_a_formula_in_a_name_does_not_run(self, tmp_path: Path) -> None:
        for side in ("target", "golden"):
            write_rank(tmp_path / side, [('=HYPERLINK("x").0.forward', [], [torch.ones(2)])])
        run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
        [row] = read_csv(tmp_path / "out")
        assert row["call"].startswith("'=")


class TestMsprobeFlags:
    def test_the_older_tools_command_line(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        target, golden = pair
        ran = run("compare", "-tp", target / "dump.json", "-gp", golden / "dump.json", "-o", tmp_path / "out")
        assert ran.returncode in (0, 1), ran.stderr
        rows = read_csv(tmp_path / "out")
        assert list(rows[0])[:2] == ["NPU Name", "Bench Name"]

    def test_diff_analyze(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        target, golden = pair
        run("compare", "-tp", target, "-gp", golden, "-o", tmp_path / "out", "-da", "--style", "native")
        [path] = (tmp_path / "out").glob("diff_analyze_*.json")
        [[node]] = json.loads(path.read_text()).values()
        assert node["op_name"] == "Functional.linear.3.forward"

    def test_fuzzy_and_mapping(self, tmp_path: Path) -> None:
        golden = chain(3)
        renumbered = [
            (name.replace(".0.forward", ".7.forward"), inputs, outputs) for name, inputs, outputs in golden
        ]
        write_rank(tmp_path / "golden", golden)
        write_rank(tmp_path / "target", renumbered)
        ran = run("compare", tmp_path / "target", tmp_path / "golden", "-fm", "--json")
        assert json.loads(ran.stdout)["summary"]["paired"].get("fuzzy", 0) > 0
        mapping = tmp_path / "mapping.yaml"
        mapping.write_text(
            "# rows of the target: rows of the golden\n"
            "Functional.linear.7.forward.input.0: Functional.linear.0.forward.input.0\n"
            "Functional.linear.7.forward.output.0: Functional.linear.0.forward.output.0\n"
        )
        ran = run(
            "compare", tmp_path / "target", tmp_path / "golden", "-dm", mapping, "--match", "exact", "--json"
        )
        assert json.loads(ran.stdout)["summary"]["paired"].get("mapped", 0) > 0

    def test_a_cell_mapping_in_either_style(self, tmp_path: Path) -> None:
        def dump(folder: Path, name: str) -> Path:
            x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
            return write_rank(
                folder, [(f"Module.{name}.forward.0", [x], [x * 2]), ("Torch.add.0.forward", [x], [x])]
            )

        target, golden = (
            dump(tmp_path / "target", "net.fc2.Linear"),
            dump(tmp_path / "golden", "net.out.Linear"),
        )
        mapping = tmp_path / "cells.yaml"
        mapping.write_text("fc2.Linear: out.Linear\n")
        ran = run("compare", target, golden, "-cm", mapping, "--match", "exact", "--json")
        assert json.loads(ran.stdout)["agreement"] == "agree", ran.stdout
        run("compare", "-tp", target, "-gp", golden, "-cm", mapping, "-o", tmp_path / "out")
        partners = {row["NPU Name"]: row["Bench Name"] for row in read_csv(tmp_path / "out")}
        assert (
            partners["Module.net.fc2.Linear.forward.0.output.0"] == "Module.net.out.Linear.forward.0.output.0"
        )
        assert partners["Torch.add.0.forward.input.0"] == "Torch.add.0.forward.input.0"

    def test_what_a_style_cannot_do_is_said(self, pair: tuple[Path, Path]) -> None:
        ran = run("compare", *pair, "--style", "ptdbg", "--match", "align")
        assert ran.returncode == 2
        assert "--match fuzzy" in ran.stderr


def test_files_and_checkpoints(tmp_path: Path) -> None:
    weights = {"a.weight": torch.randn(4, 4), "b.bias": torch.randn(4)}
    ulpscope.save(tmp_path / "golden.safetensors", weights)
    ulpscope.save(tmp_path / "same.pt", weights)
    ulpscope.save(tmp_path / "other.safetensors", {**weights, "b.bias": weights["b.bias"] + 1})
    assert ulpscope.compare(tmp_path / "same.pt", tmp_path / "golden.safetensors").ok
    result = ulpscope.compare(tmp_path / "other.safetensors", tmp_path / "golden.safetensors")
    assert result.first_divergence is not None
    assert result.first_divergence.call == "b.bias"
    np.save(tmp_path / "one.npy", np.arange(6.0))
    np.save(tmp_path / "two.npy", np.arange(6.0))
    assert ulpscope.compare(tmp_path / "one.npy", tmp_path / "two.npy").ok


def test_memory_does_not_grow_with_the_tensors(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        calls = []
        for number in range(6):
            x = torch.full((16 << 20,), float(number))
            calls.append((f"Functional.relu.{number}.forward", [], [x]))
        write_rank(tmp_path / side, calls)
    script = (
        "import resource, sys, ulpscope\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert ulpscope.compare(sys.argv[1], sys.argv[2]).ok\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "target", tmp_path / "golden"],
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.rmtree(tmp_path / "target")
    # 768 MiB were compared.
    assert int(ran.stdout) < 500 * 1024
