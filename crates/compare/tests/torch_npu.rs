//! Two `.pkl` files of torch_npu.hooks, compared as that tool compares them.
#![allow(clippy::unwrap_used)]

use std::io;
use std::path::{Path, PathBuf};

use ulpscope_compare::styles::torch_npu::TorchNpu;
use ulpscope_compare::{NoProgress, RankOutcome, Row, Side, Sink, Verdict, compare_ranks};
use ulpscope_dump::{Dump, Rank, Select};
use ulpscope_report::Cell;

#[derive(Default)]
struct Rows(Vec<Row>);

impl Sink for Rows {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        assert_eq!(columns.len(), 9);
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        self.0.push(row);
        Ok(())
    }
}

fn write(folder: &Path, name: &str, lines: &[&str]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path
}

fn open(path: &Path) -> Rank {
    Dump::open(path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap()
}

fn compare(target: &[&str], golden: &[&str], match_shapes: bool) -> (Vec<Row>, RankOutcome) {
    let folder = tempfile::tempdir().unwrap();
    let target = open(&write(folder.path(), "target.pkl", target));
    let golden = open(&write(folder.path(), "golden.pkl", golden));
    let mut rows = Rows::default();
    let style = TorchNpu { match_shapes };
    let outcome = compare_ranks(&style, &target, &golden, &mut rows, &NoProgress).unwrap();
    (rows.0, outcome)
}

fn names(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|row| format!("{} {}", row.cells[0], row.cells[1])).collect()
}

fn line(number: u32, name: &str, values: &str, shape: &str) -> String {
    format!(r#"["{number}_{name}", {values}, "torch.float32", {shape}]"#)
}

#[test]
fn shapes_that_differ_are_not_calculated() {
    let target = line(0, "Torch_relu_forward_output", "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]", "[2, 3]");
    let golden = line(0, "Torch_relu_forward_output", "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]", "[6]");
    let (rows, outcome) = compare(&[&target], &[&golden], false);
    let not = Cell::text("cannot be calculated");
    assert_eq!(rows[0].cells[6..], [Cell::text("cannot be calculated "), not.clone(), not]);
    assert_eq!(rows[0].verdict, Verdict::Fail, "another shape is a difference");
    assert!(outcome.problems.is_empty());

    let (rows, outcome) = compare(&[&target], &[&golden], true);
    assert!(rows.is_empty());
    let sides: Vec<Side> = outcome.partnerless.iter().map(|alone| alone.side).collect();
    assert_eq!(sides, [Side::Target, Side::Golden]);
    assert_eq!(outcome.partnerless[0].name, "0_Torch_relu_forward");
}

#[test]
fn numbers_are_spelled_as_pythons() {
    let golden = line(0, "Torch_relu_forward_output", "[0.0, 2.0, 4.0, 8.0]", "[4]");
    let target = line(0, "Torch_relu_forward_output", "[0.0, 3.0, 6.0, 12.0]", "[4]");
    let (rows, _) = compare(&[&target], &[&golden], false);
    let rmse = 21f64.sqrt() / 2.0;
    assert_eq!(rows[0].cells[6..], [Cell::Exact(1.0), Cell::Exact(rmse), Cell::text("nan%")]);
    assert_eq!(rows[0].verdict, Verdict::Fail, "half as large again, whatever the direction says");

    let zero = line(0, "Torch_relu_forward_output", "[0.0, 0.0, 0.0, 0.0]", "[4]");
    let (rows, _) = compare(&[&target], &[&zero], false);
    assert_eq!(rows[0].cells[6], Cell::text("nan"));
    assert_eq!(rows[0].cells[8], Cell::text("nan%"));
    let (rows, _) = compare(&[&golden], &[&golden], false);
    assert_eq!(rows[0].verdict, Verdict::Pass);
}

#[test]
fn nan_prints_as_nothing_but_in_the_cosine() {
    let nan = line(0, "Torch_relu_forward_output", "[NaN, 3.0, 6.0, 12.0]", "[4]");
    let (rows, _) = compare(&[&nan], &[&nan], false);
    assert_eq!(rows[0].cells[6..], [Cell::text("nan"), Cell::Missing, Cell::text("nan%")]);
    assert_eq!(rows[0].verdict, Verdict::Pass, "the same NaN on both sides");
}

#[test]
fn operations_end_at_each_output() {
    let (v, shape) = ("[1.0, 2.0]", "[2]");
    let golden = [
        line(0, "Torch_sort_forward_input.0", v, shape),
        line(1, "Torch_sort_forward_output.0", v, shape),
        line(2, "Torch_sort_forward_output.1", v, shape),
        line(3, "Torch_relu_forward_output", v, shape),
        line(4, "Torch_relu_forward_input.0", v, shape),
    ];
    let golden: Vec<&str> = golden.iter().map(String::as_str).collect();
    // The target lacks the second output, which is an operation of its own.
    let target = [golden[0], golden[1], golden[3]];
    let (rows, outcome) = compare(&target, &golden, false);
    assert_eq!(
        names(&rows),
        [
            "0_Torch_sort_forward_input.0 0_Torch_sort_forward_input.0",
            "1_Torch_sort_forward_output.0 1_Torch_sort_forward_output.0",
            "3_Torch_relu_forward_output 3_Torch_relu_forward_output",
        ]
    );
    let alone: Vec<(&str, &str)> =
        outcome.partnerless.iter().map(|alone| (alone.name.as_str(), alone.reason.as_str())).collect();
    assert_eq!(alone.len(), 2, "{alone:?}");
    assert_eq!(alone[0].0, "2_Torch_sort_forward");
    assert_eq!(alone[1].0, "4_Torch_relu_forward");
    assert!(alone[1].1.contains("no output follows"), "{alone:?}");
}

#[test]
fn samples_do_not_compare_with_whole_tensors() {
    let whole = line(0, "Torch_relu_forward_output", "[1.0, 2.0]", "[2]");
    let sample = line(0, "Torch_relu_forward_output", "[1.0, 2.0, 2.0, 1.0, 1.5]", "[2]");
    let (rows, outcome) = compare(&[&sample], &[&whole], false);
    assert_eq!(rows[0].verdict, Verdict::NotCompared);
    assert_eq!(outcome.problems.count(), 1);
    assert!(outcome.problems.listed()[0].contains("compare samples with samples"));
    let (rows, _) = compare(&[&sample], &[&sample], false);
    assert_eq!(rows[0].verdict, Verdict::Pass);
}
