"""What a comparison writes and prints: ranks, sheets, documents, msprobe's flags."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from pathlib import Path

import openpyxl
import pandas
import pytest
import torch

import ulpscope
from dumps import PROGRAM, chain, read_csv, run, write_rank

# The words on rows that differ: of the call that introduced the error, and of those that inherited it.
FAILING = {"diverged here", "differs", "inherited"}


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
        for name in ("rows.csv", "rows.xlsx"):
            result.save(tmp_path / f"saved_{name}")
            assert (tmp_path / f"saved_{name}").read_bytes() == (tmp_path / name).read_bytes()
        with pytest.raises(ValueError, match=r"rows\.txt: expected a name that ends in \.csv or \.xlsx"):
            result.save(tmp_path / "rows.txt")
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
            assert filled == (row["verdict"] in FAILING)

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
        failing = [row for row in rows if row["verdict"] in FAILING]
        assert printed["summary"]["failed"] == len(failing)
        assert [row["target_name"] for row in printed["ranks"][0]["rows_to_look_at"]] == [
            row["target_name"] for row in failing
        ]
        assert rows[printed["first_divergence"]["line"] - 2] == failing[0]

    def test_the_advisor_explains_and_names_the_row(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        run("compare", *pair, "-o", tmp_path / "out")
        [path] = (tmp_path / "out").glob("advisor_*.txt")
        # Only a result in files has lines to name.
        text = re.sub(r" \(line \d+ of compare_result_\d+\.csv\)", "", path.read_text())
        assert text.startswith(ulpscope.compare(*pair).explain())
        assert "Suspect Nodes: Functional.linear.3.forward.output.0\n" in text

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

    def test_a_cell_mapping_does_not_put_other_kinds_of_values_together(self, tmp_path: Path) -> None:
        """As in the tool: only a data mapping, row by row, overrules the dtypes."""
        x = torch.ones(3, 4)
        target = write_rank(tmp_path / "target", [("Module.net.fc2.Linear.forward.0", [x], [x, x])])
        golden = write_rank(tmp_path / "golden", [("Module.net.out.Linear.forward.0", [x], [x, x.int()])])
        output = "Module.net.{}.Linear.forward.0.output.1"
        for flag, line, partner in (
            ("-cm", "fc2.Linear: out.Linear", "N/A"),
            ("-dm", f"{output.format('fc2')}: {output.format('out')}", output.format("out")),
        ):
            mapping = tmp_path / f"mapping{flag}.yaml"
            mapping.write_text(line + "\n")
            out = tmp_path / f"out{flag}"
            run("compare", "-tp", target, "-gp", golden, flag, mapping, "-o", out)
            partners = {row["NPU Name"]: row["Bench Name"] for row in read_csv(out)}
            assert partners[output.format("fc2")] == partner

    def test_what_a_style_cannot_do_is_said(self, pair: tuple[Path, Path]) -> None:
        ran = run("compare", *pair, "--style", "ptdbg", "--match", "align")
        assert ran.returncode == 2
        assert "--match fuzzy" in ran.stderr


def test_a_reader_that_goes_away_does_not_change_the_exit_code(pair: tuple[Path, Path]) -> None:
    command = [*PROGRAM, "compare", *map(str, pair), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait() == 1


def test_comparisons_at_the_same_time_replace_nothing(pair: tuple[Path, Path], tmp_path: Path) -> None:
    command = [*PROGRAM, "compare", *map(str, pair), "-o", str(tmp_path / "out"), "--format", "csv"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    told = [line for process in running for line in process.communicate()[0].splitlines()]
    sheets = sorted(line.removeprefix("wrote ") for line in told if line.endswith(".csv"))
    assert len(set(sheets)) == 4
    assert sheets == sorted(str(path) for path in (tmp_path / "out").glob("*.csv"))
