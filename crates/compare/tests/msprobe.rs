//! Both styles of msprobe against what msprobe itself wrote for the same dumps (`tests/golden/msprobe_compare`).
#![allow(clippy::unwrap_used)]

mod kept_rows;

use std::fs;
use std::path::{Path, PathBuf};

use kept_rows::Kept;
use tempfile::TempDir;
use ulpscope_compare::styles::msprobe::Msprobe;
use ulpscope_compare::styles::msprobe1::Msprobe1;
use ulpscope_compare::{NoProgress, RankOutcome, Side, Style, compare_ranks};
use ulpscope_dump::{Dump, Rank, Select};
use ulpscope_formats::file::Format;
use ulpscope_formats::json::python_float_repr;
use ulpscope_formats::{Access, Value, file};
use ulpscope_report::{Cell, Emphasis, sheet};

fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/msprobe_compare")
}

/// A side of a case, opened where it lies; tensors are laid out as the tool does, in a folder that goes with it.
fn side(case: &str, side: &str) -> (Rank, TempDir) {
    let (from, scratch) = (golden_folder().join(case).join(side), TempDir::new().unwrap());
    for name in ["dump.json", "stack.json"].map(|name| (from.join(name), scratch.path().join(name))) {
        if name.0.exists() {
            fs::copy(&name.0, &name.1).unwrap();
        }
    }
    if from.join("tensors.pt").exists() {
        let data = scratch.path().join("dump_tensor_data");
        fs::create_dir(&data).unwrap();
        let all = file::read(&from.join("tensors.pt"), Access::ReadOnly).unwrap().value;
        let Value::Dict(pairs) = &all else { panic!("a dictionary of tensors") };
        for (name, value) in pairs {
            let Value::Str(name) = name else { panic!("names") };
            file::write(&data.join(name), Format::Pt, value).unwrap();
        }
    }
    let dump = Dump::open(&scratch.path().join("dump.json"), &Select::default()).unwrap();
    (dump.steps[0].ranks[0].open().unwrap(), scratch)
}

fn run(style: &dyn Style, case: &str) -> (Kept, RankOutcome) {
    let (target, _target_folder) = side(case, "target");
    let (golden, _golden_folder) = side(case, "golden");
    let mut kept = Kept::default();
    let outcome = compare_ranks(style, &target, &golden, &mut kept, &NoProgress).unwrap();
    (kept, outcome)
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Exact(number) => python_float_repr(*number),
        Cell::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Whether two cells are the same except for the last bits of a sum, or of the sixteen digits of a workbook.
fn nearly(ours: &str, theirs: &str, tolerance: f64) -> bool {
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b || (a - b).abs() <= tolerance * b.abs(),
        _ => false,
    }
}

fn assert_same(kept: &Kept, expected: &sheet::Sheet, columns: usize, workbook: bool) {
    assert_eq!(kept.columns, expected.columns[..columns]);
    for (ours, theirs) in kept.rows.iter().zip(&expected.rows) {
        for ((column, cell), expected) in kept.columns.iter().zip(&ours.cells).zip(theirs.iter()) {
            let ours = text(cell);
            let same = ours == expected
                || (column == "EucDist" && nearly(&ours, expected, 1e-12))
                || (workbook && nearly(&ours, expected, 1e-15));
            assert!(same, "{}, {column}: expected {expected:?}, found {ours:?}", &theirs[0]);
        }
    }
    assert_eq!(kept.rows.len(), expected.rows.len());
}

#[test]
fn rows_are_those_of_26() {
    for case in ["statistics", "digests", "integers", "floats", "real"] {
        let (kept, _) = run(&Msprobe::default(), case);
        let expected = sheet::read(&golden_folder().join(format!("{case}.26.csv"))).unwrap();
        assert_same(&kept, &expected, expected.columns.len(), false);
    }
}

#[test]
fn fuzzy_rows_are_those_of_26() {
    let (kept, _) = run(&Msprobe { fuzzy: true, ..Msprobe::default() }, "real");
    let expected = sheet::read(&golden_folder().join("real.fuzzy.26.csv")).unwrap();
    assert_same(&kept, &expected, expected.columns.len(), false);
}

#[test]
fn rows_colours_and_advice_are_those_of_1() {
    for case in ["statistics", "digests", "integers", "floats", "real"] {
        let (kept, outcome) = run(&Msprobe1::default(), case);
        let expected = sheet::read(&golden_folder().join(format!("{case}.1.csv"))).unwrap();
        let columns = expected.columns.len() - 1;
        assert_same(&kept, &expected, columns, true);
        for (ours, theirs) in kept.rows.iter().zip(&expected.rows) {
            let colour = match ours.emphasis {
                Emphasis::Bad => "red",
                Emphasis::Warn => "yellow",
                _ => "",
            };
            assert_eq!(colour, &theirs[columns], "{case}: {}", &theirs[0]);
        }
        let advice = fs::read_to_string(golden_folder().join(format!("{case}.advice.1.txt"))).unwrap();
        assert_eq!(outcome.advice.as_deref(), Some(advice.as_str()), "{case}");
    }
}

#[test]
fn nothing_vanishes_from_the_summary() {
    let (_, outcome) = run(&Msprobe::default(), "statistics");
    let of = |side: Side| -> Vec<&str> {
        outcome.partnerless.iter().filter(|p| p.side == side).map(|p| p.name.as_str()).collect()
    };
    assert_eq!(
        of(Side::Target),
        [
            "Torch.words.0.forward.input.11",
            "Torch.kinds.0.forward.input.0",
            "Torch.only_target.0.forward",
            "Torch.more.0.forward.input.2",
            "Torch.more.0.forward.output.0",
        ]
    );
    assert_eq!(of(Side::Golden), ["Torch.more.0.forward.output.2", "Torch.only_golden.0.forward"]);
    let (_, outcome) = run(&Msprobe1::default(), "statistics");
    assert!(outcome.partnerless.iter().any(|p| p.name == "Torch.only_golden.0.forward"));
}

#[test]
fn a_mapping_names_the_counterpart_whatever_its_dtype() {
    let pairs = |pairs: &[(&str, &str)]| {
        Some(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>())
    };
    let mapping = pairs(&[
        ("Torch.kinds.0.forward.input.0", "Torch.kinds.0.forward.input.1"),
        ("Torch.only_target.0.forward.output.0", "Torch.grows.0.forward.output.0"),
    ]);
    let partner = |kept: &Kept, name: &str| {
        let row = kept.rows.iter().find(|row| text(&row.cells[0]) == name).unwrap();
        text(&row.cells[1])
    };
    let (kept, _) = run(&Msprobe { data_mapping: mapping.clone(), ..Msprobe::default() }, "statistics");
    assert_eq!(kept.rows.len(), 89);
    assert_eq!(partner(&kept, "Torch.kinds.0.forward.input.0"), "Torch.kinds.0.forward.input.1");
    assert_eq!(partner(&kept, "Torch.only_target.0.forward.output.0"), "Torch.grows.0.forward.output.0");
    assert_eq!(partner(&kept, "Torch.late.0.forward.input.0"), "Torch.late.0.forward.input.0");
    // 1.x compares what the mapping names, and nothing else.
    let (kept, outcome) = run(&Msprobe1 { data_mapping: mapping, ..Msprobe1::default() }, "statistics");
    assert_eq!(kept.rows.len(), 2);
    assert!(outcome.partnerless.len() > 100);
}

#[test]
fn what_cannot_be_read_is_said() {
    for style in [&Msprobe::default() as &dyn Style, &Msprobe1::default()] {
        let (kept, outcome) = run(style, "real");
        let problems = outcome.problems.listed().join("\n");
        let missing = "Torch.absent_in_target.0.forward.output.0.pt: No such file or directory";
        assert!(problems.contains(missing), "{problems}");
        let missing = "Torch.absent_in_golden.0.forward.output.0.pt: No such file or directory";
        assert!(problems.contains(missing), "{problems}");
        let row = kept
            .rows
            .iter()
            .find(|row| text(&row.cells[0]).starts_with("Torch.absent_in_golden.0.forward.output"));
        assert!(row.unwrap().cells.contains(&Cell::text("unsupported")));
    }
}

#[test]
fn dumps_of_different_tasks_are_compared_by_their_statistics() {
    let (target, _target_folder) = side("real", "target");
    let (golden, _golden_folder) = side("statistics", "golden");
    let mut kept = Kept::default();
    let outcome = compare_ranks(&Msprobe::default(), &target, &golden, &mut kept, &NoProgress).unwrap();
    assert!(kept.columns.contains(&"Max diff".to_owned()));
    assert!(
        outcome.notes[0].to_string().starts_with("target's task is tensor, golden's is statistics"),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn hostile_dumps_leave_rows_or_problems_never_a_panic() {
    let scratch = TempDir::new().unwrap();
    let bodies = [
        r#""Torch.a.0.forward": {"input_args": [{"type": "torch.Tensor", "dtype": 3, "shape": "x", "Max": [1, {}]}]}"#,
        r#""Torch.a.0.forward": {"input_args": 5, "output": "text"}"#,
        r#""Torch.a.0.forward": [], "": {}, ".": null, "forward": {}"#,
        r#""Torch.a.0.forward": {"input_args": [{"type": "int", "value": 170141183460469231731687303715884105727}],
           "output": [{"type": "int", "value": -170141183460469231731687303715884105728}]}"#,
        r#""Torch.a.0.forward": {"output": [{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2],
           "data_name": "../../etc/passwd"}]}"#,
    ];
    for (task, body) in
        ["tensor", "statistics"].iter().flat_map(|task| bodies.iter().map(move |body| (task, body)))
    {
        let path = scratch.path().join("dump.json");
        fs::write(&path, format!(r#"{{"task": "{task}", "data": {{{body}}}}}"#)).unwrap();
        let open = || Dump::open(&path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap();
        let (target, golden) = (open(), open());
        for style in [&Msprobe::default() as &dyn Style, &Msprobe1::default()] {
            let mut kept = Kept::default();
            compare_ranks(style, &target, &golden, &mut kept, &NoProgress).unwrap();
            assert!(kept.rows.iter().all(|row| row.cells.len() == kept.columns.len()), "{body}");
        }
    }
}

#[test]
fn saved_variables_beside_a_dump_leave_its_stacks_alone() {
    let folder = TempDir::new().unwrap();
    let tensor = r#"{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0, "requires_grad": false}"#;
    let record = |key: &str, body: &str| {
        format!(
            r#"{{"task": "statistics", "level": "L1", "dump_data_dir": null, "data": {{"{key}": {body}}}}}"#
        )
    };
    let call = format!(r#"{{"input_args": [{tensor}], "input_kwargs": {{}}, "output": [{tensor}]}}"#);
    let stack = r#"{"0": [["Functional.relu.0.forward"], ["File net.py, line 7, in f, \n x"]]}"#;
    fs::write(folder.path().join("dump.json"), record("Functional.relu.0.forward", &call)).unwrap();
    fs::write(folder.path().join("debug.json"), record("x.0.debug", tensor)).unwrap();
    fs::write(folder.path().join("stack.json"), stack).unwrap();
    let rank = || Dump::open(folder.path(), &Select::default()).unwrap().steps[0].ranks[0].open().unwrap();
    let mut kept = Kept::default();
    compare_ranks(&Msprobe::default(), &rank(), &rank(), &mut kept, &NoProgress).unwrap();
    let column = kept.column("NPU_Stack_Info");
    assert!(text(&kept.rows[0].cells[column]).contains("net.py"), "{:?}", kept.rows[0].cells);
}
