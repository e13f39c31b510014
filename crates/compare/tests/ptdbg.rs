//! Dumps of ptdbg_ascend, compared as its releases compare them: what no golden archive shows.
#![allow(clippy::unwrap_used)]

mod kept_rows;

use std::path::{Path, PathBuf};

use kept_rows::Kept;
use ulpscope_compare::styles::ptdbg::{Ptdbg, Release};
use ulpscope_compare::{CompareError, NoProgress, Partnerless, RankOutcome, Side, Verdict, compare_ranks};
use ulpscope_dump::{Dump, Rank, Select};
use ulpscope_report::{Cell, Emphasis};
use ulpscope_tensor::push_python_float;

/// A line of a dump, and the elements it speaks of.
struct Line {
    name: String,
    text: String,
    elements: Option<Vec<f32>>,
}

/// A tensor of float32.
fn tensor(name: &str, elements: &[f32]) -> Line {
    of_dtype(name, "torch.float32", elements)
}

fn of_dtype(name: &str, dtype: &str, elements: &[f32]) -> Line {
    let text = format!(r#"["{name}", 0, [], "{dtype}", [{}], [2.0, -1.0, 0.5, 3.0]]"#, elements.len());
    Line { name: name.to_owned(), text, elements: Some(elements.to_vec()) }
}

/// A line as it is, without elements.
fn plain(name: &str, text: &str) -> Line {
    Line { name: name.to_owned(), text: text.to_owned(), elements: None }
}

fn npy(elements: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", elements.len());
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend(format!("{header:<117}\n").bytes());
    elements.iter().for_each(|element| bytes.extend(element.to_le_bytes()));
    bytes
}

fn write(folder: &Path, side: &str, lines: &[Line], with_tensors: bool) -> PathBuf {
    let folder = folder.join(side);
    let data = folder.join("dump");
    std::fs::create_dir_all(if with_tensors { &data } else { &folder }).unwrap();
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    std::fs::write(folder.join("dump.pkl"), texts.join("\n") + "\n").unwrap();
    for line in lines.iter().filter(|_| with_tensors) {
        if let Some(elements) = &line.elements {
            std::fs::write(data.join(format!("{}.npy", line.name)), npy(elements)).unwrap();
        }
    }
    folder.join("dump.pkl")
}

fn open(path: &Path) -> Rank {
    Dump::open(path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap()
}

impl Kept {
    /// The texts of some columns of a row, as a csv has them.
    fn texts(&self, row: usize, columns: &[&str]) -> Vec<String> {
        columns.iter().map(|name| text(&self.rows[row].cells[self.column(name)])).collect()
    }
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Missing => String::new(),
        Cell::Text(text) => text.clone(),
        Cell::Exact(number) => {
            let mut digits = Vec::new();
            push_python_float(*number, &mut digits);
            String::from_utf8(digits).unwrap()
        }
        other => other.to_string(),
    }
}

fn run(style: Ptdbg, target: &Path, golden: &Path) -> Result<(Kept, RankOutcome), CompareError> {
    let mut table = Kept::default();
    let outcome = compare_ranks(&style, &open(target), &open(golden), &mut table, &NoProgress)?;
    Ok((table, outcome))
}

fn compare(release: Release, fuzzy: bool, target: &[Line], golden: &[Line]) -> (Kept, RankOutcome) {
    let folder = tempfile::tempdir().unwrap();
    let paths =
        [("target", target), ("golden", golden)].map(|(side, lines)| write(folder.path(), side, lines, true));
    run(Ptdbg { release, fuzzy }, &paths[0], &paths[1]).unwrap()
}

fn strict(release: Release, target: &[Line], golden: &[Line]) -> (Kept, RankOutcome) {
    compare(release, false, target, golden)
}

const FIGURES: [&str; 5] =
    ["Cosine", "MaxAbsErr", "MaxRelativeErr", "Accuracy Reached or Not", "Err_message"];

#[test]
fn a_golden_zero_is_moved_by_an_epsilon() {
    let (target, golden) = ([1.0, 0.5, 0.0, 2.0], [1.0, 0.0, 0.0, 2.0]);
    let v4 = strict(
        Release::V4,
        &[tensor("Torch_add_0_forward_output", &target)],
        &[tensor("Torch_add_0_forward_output", &golden)],
    );
    let expected = ["0.975900072949", "0.500000000000", "2251799813685248.000000000000", "No", ""];
    assert_eq!(v4.0.texts(0, &FIGURES), expected);
    let v6 = strict(
        Release::V6,
        &[tensor("Torch.add.0.forward.output", &target)],
        &[tensor("Torch.add.0.forward.output", &golden)],
    );
    // In binary32, and with the moved elements.
    assert_eq!(v6.0.texts(0, &FIGURES), ["0.975900073503", "0.5", "4194304.0", "No", ""]);
    assert_eq!(v6.0.texts(0, &["One Thousandth Err Ratio"]), ["0.75"]);
}

#[test]
fn what_is_not_finite_must_be_at_the_same_places() {
    let name = "Torch_add_0_forward_output";
    let both = [f32::NAN, f32::INFINITY, 1.0];
    let (table, _) =
        strict(Release::V4, &[tensor(name, &both)], &[tensor(name, &[f32::NAN, f32::NEG_INFINITY, 1.0])]);
    assert_eq!(table.texts(0, &FIGURES), ["1.0", "0.000000000000", "0.000000000000", "Yes", ""]);
    let (table, _) = strict(Release::V4, &[tensor(name, &both)], &[tensor(name, &[1.0, f32::INFINITY, 1.0])]);
    let message = "The position of inf or nan in NPU and bench Tensor do not match.";
    assert_eq!(table.texts(0, &FIGURES), ["N/A", "N/A", "N/A", "No", message]);
    assert_eq!(table.rows[0].verdict, Verdict::Fail);

    let name = "Torch.add.0.forward.output";
    let (table, _) = strict(Release::V6, &[tensor(name, &both)], &[tensor(name, &both)]);
    let message = "Cannot compare by MaxRelativeError, the data contains nan in dump data.";
    assert_eq!(table.texts(0, &FIGURES), ["1.0", "0.0", "Nan", "Yes", message]);
}

#[test]
fn a_missing_file_costs_one_row() {
    let name = "Torch_add_0_forward_output";
    let lines = || [tensor("Torch_add_0_forward_input.0", &[1.0, 2.0]), tensor(name, &[1.0, 2.0])];
    let folder = tempfile::tempdir().unwrap();
    let [target, golden] = ["target", "golden"].map(|side| write(folder.path(), side, &lines(), true));
    let lost = golden.with_extension("").join(format!("{name}.npy"));
    std::fs::remove_file(&lost).unwrap();
    let (table, outcome) = run(Ptdbg { release: Release::V4, fuzzy: false }, &target, &golden).unwrap();
    assert_eq!(table.rows.len(), 2);
    assert_eq!(table.rows[0].verdict, Verdict::Pass);
    let message = format!("Dump file: {} not found.", lost.display());
    assert_eq!(table.texts(1, &FIGURES), ["Nan", "Nan", "Nan", "Nan", &message]);
    assert_eq!(table.rows[1].verdict, Verdict::NotCompared);
    assert_eq!(outcome.problems.count(), 1);
    assert!(outcome.problems.listed()[0].contains(name), "{:?}", outcome.problems);
}

#[test]
fn values_without_an_angle() {
    let names = ["input.0", "input.1", "input.2", "input.3"].map(|end| format!("Torch_add_0_forward_{end}"));
    let scalar = |value: &str, class: &str| {
        plain(
            &names[0],
            &format!(r#"["{}", 0, [], "<class '{class}'>", "[]", [{value}, {value}, {value}]]"#, names[0]),
        )
    };
    let end = || tensor("Torch_add_0_forward_output", &[1.0, 2.0]);
    let side = |value: &str, one: f32| {
        [
            scalar(value, "float"),
            tensor(&names[1], &[one]),
            tensor(&names[2], &[]),
            tensor(&names[3], &[0.0, 0.0]),
            end(),
        ]
    };
    let (table, _) = strict(Release::V4, &side("1.5", 3.0), &side("1.0", 2.0));
    let message = "This is type of scalar data, can not compare.";
    assert_eq!(table.texts(0, &FIGURES), ["unsupported", "0.500000000000", "0.500000000000", "Nan", message]);
    assert_eq!(table.texts(0, &["NPU Tensor Dtype", "NPU Tensor Shape"]), ["<class 'float'>", "[]"]);
    assert_eq!(table.texts(1, &FIGURES), ["unsupported", "1.000000000000", "0.500000000000", "Nan", ""]);
    assert_eq!(
        table.texts(2, &FIGURES),
        ["unsupported", "0", "0", "Nan", "This is empty data, can not compare."]
    );
    assert_eq!(table.texts(3, &FIGURES), ["1.0", "0.000000000000", "0.000000000000", "Yes", ""]);
}

#[test]
fn dtypes_must_be_of_the_tools_pairs() {
    let call = |dtype: &str| {
        ["input.0", "output"].map(|end| of_dtype(&format!("Torch_add_0_forward_{end}"), dtype, &[1.0, 2.0]))
    };
    for (target, golden, matched) in [
        ("torch.float16", "torch.float32", true),
        ("torch.bfloat16", "torch.float16", true),
        ("torch.float32", "torch.bfloat16", false),
    ] {
        let (table, outcome) = strict(Release::V4, &call(target), &call(golden));
        let verdict = if matched { "Yes" } else { "Nan" };
        assert_eq!(table.texts(1, &["Accuracy Reached or Not"]), [verdict], "{target} {golden}");
        if !matched {
            let names = ["Bench Name", "Bench max", "Err_message", "NPU max"];
            assert_eq!(table.texts(0, &names), ["Nan", "Nan", "No bench data matched.", "2.0"]);
            let sides: Vec<Side> = outcome.partnerless.iter().map(|alone| alone.side).collect();
            assert_eq!(sides, [Side::Target, Side::Golden]);
            assert!(outcome.partnerless[1].reason.contains("other dtypes or shapes"));
        }
    }
}

#[test]
fn numbers_of_calls_are_passed_over_only_when_asked() {
    let call = |number: u32| [tensor(&format!("Torch_add_{number}_forward_output"), &[1.0, 2.0])];
    let (table, _) = compare(Release::V4, true, &call(3), &call(7));
    assert_eq!(table.texts(0, &["Bench Name"]), ["Torch_add_7_forward_output"]);
    let message = " Fuzzy matching data, the comparison accuracy may be affected.";
    assert_eq!(table.texts(0, &FIGURES)[3..], ["Yes", message]);
    let (table, outcome) = strict(Release::V4, &call(3), &call(7));
    assert_eq!(table.texts(0, &["Err_message"]), ["No bench data matched."]);
    assert_eq!(outcome.partnerless.len(), 2);
}

#[test]
fn whatever_the_tool_leaves_out_is_listed() {
    let add = |number: u32| tensor(&format!("Torch_add_{number}_forward_output"), &[1.0]);
    let target = [add(0), tensor("Torch_mul_0_forward_input.0", &[1.0])];
    let golden = [add(0), tensor("Torch_relu_0_forward_input.0", &[1.0]), add(1)];
    let (table, outcome) = strict(Release::V4, &target, &golden);
    assert_eq!(table.rows.len(), 1);
    let listed = |side: Side| {
        let of_side = |alone: &&Partnerless| alone.side == side;
        outcome.partnerless.iter().filter(of_side).map(|alone| alone.name.as_str()).collect::<Vec<&str>>()
    };
    assert_eq!(listed(Side::Target), ["Torch_mul_0_forward"]);
    // The tool glues what has no output to the next call.
    assert_eq!(listed(Side::Golden), ["Torch_relu_0_forward", "Torch_add_1_forward"]);
}

#[test]
fn reasons_tell_missing_from_passed_by() {
    let calls = |numbers: &[u32], mark: &str| -> Vec<Line> {
        let lines = numbers.iter().flat_map(|number| ["input.0", "output"].map(|end| (number, end)));
        lines
            .map(|(number, end)| {
                tensor(&["Torch", "add", &number.to_string(), "forward", end].join(mark), &[1.0])
            })
            .collect()
    };
    // 6.0 looks for partners only when the target has something new: what comes later in the golden is passed by.
    let (table, outcome) = strict(Release::V6, &calls(&[1], "."), &calls(&[0, 1], "."));
    assert_eq!(table.texts(0, &["Err_message"]), ["No bench data matched."]);
    let reasons: Vec<&str> = outcome.partnerless.iter().map(|alone| alone.reason.as_str()).collect();
    let passed_by = "the other dump has the same operation, but not where ptdbg_ascend looks for it";
    assert_eq!(reasons, [passed_by, "the other dump has no operation of these names", passed_by]);
    let (table, _) = strict(Release::V4, &calls(&[1], "_"), &calls(&[0, 1], "_"));
    assert_eq!(table.texts(1, &["Bench Name"]), ["Torch_add_1_forward_output"]);
}

#[test]
fn statistics_alone_are_for_6_0() {
    let folder = tempfile::tempdir().unwrap();
    let line = |max: &str| {
        plain(
            "x",
            &format!(
                r#"["Torch.add.0.forward.output", 0, [], "torch.float32", [2], [{max}, 1, 0.5, "Nan"]]"#
            ),
        )
    };
    let [target, golden] = [("target", "NaN"), ("golden", "2.0")]
        .map(|(side, max)| write(folder.path(), side, &[line(max)], false));
    let error = run(Ptdbg { release: Release::V4, fuzzy: false }, &target, &golden).unwrap_err().to_string();
    assert!(error.contains("ptdbg-6 or native") && error.contains("statistics only"), "{error}");

    let (table, _) = run(Ptdbg { release: Release::V6, fuzzy: false }, &target, &golden).unwrap();
    let columns = ["Max diff", "Min diff", "Mean diff", "L2norm diff", "NPU max", "Bench max", "Result"];
    assert_eq!(table.texts(0, &columns), ["nan\t", "0", "0.0", "Nan", "nan\t", "2.0", ""]);
    assert_eq!(table.rows[0].emphasis, Emphasis::Bad, "the target is not finite");
    assert_eq!(table.rows[0].verdict, Verdict::Fail, "a NaN that the golden does not have");
}

#[test]
fn statistics_that_differ_in_kind_fail_whatever_the_cells_say() {
    let verdict = |target: &str, golden: &str| {
        let folder = tempfile::tempdir().unwrap();
        let [target, golden] = [("target", target), ("golden", golden)].map(|(side, stats)| {
            let name = "Torch.add.0.forward.output";
            let line = plain("x", &format!(r#"["{name}", 0, [], "torch.float32", [2], {stats}]"#));
            write(folder.path(), side, &[line], false)
        });
        let (table, _) = run(Ptdbg { release: Release::V6, fuzzy: false }, &target, &golden).unwrap();
        assert_eq!(table.texts(0, &["Result", "Err_message"]), ["", ""]);
        table.rows[0].verdict
    };
    let finite = "[2.0, 1.0, 0.5, 3.0]";
    assert_eq!(verdict(finite, finite), Verdict::Pass);
    for odd in ["[NaN, 1.0, 0.5, 3.0]", "[2.0, -Infinity, 0.5, 3.0]", "[2.0, 1.0, 0.5, Infinity]"] {
        assert_eq!(verdict(odd, finite), Verdict::Fail, "{odd} in the target");
        assert_eq!(verdict(finite, odd), Verdict::Fail, "{odd} in the golden");
        assert_eq!(verdict(odd, odd), Verdict::Pass, "{odd} on both sides");
    }
    assert_eq!(verdict("[Infinity, 1.0, 0.5, 3.0]", "[-Infinity, 1.0, 0.5, 3.0]"), Verdict::Fail);
    let words = r#"["Nan", "Nan", "Nan", "Nan"]"#;
    assert_eq!(verdict(words, finite), Verdict::NotCompared, "nothing was subtracted");
    assert_eq!(verdict(words, words), Verdict::NotCompared);
}

#[test]
fn digests_are_equal_or_not() {
    let line = |end: &str, digest: &str| {
        let name = format!("Torch.add.0.forward.{end}");
        plain("x", &format!(r#"["{name}", 0, "{digest}", "torch.float32", [2], [1.0, 1.0, 1.0, 1.0]]"#))
    };
    let folder = tempfile::tempdir().unwrap();
    let [target, golden] = [("target", "0000beef"), ("golden", "12345678")].map(|(side, digest)| {
        write(folder.path(), side, &[line("input.0", "00c0ffee"), line("output", digest)], false)
    });
    let (table, outcome) = run(Ptdbg { release: Release::V6, fuzzy: false }, &target, &golden).unwrap();
    assert_eq!(table.texts(0, &["NPU MD5", "BENCH MD5", "Result"]), ["00c0ffee", "00c0ffee", "Pass"]);
    assert_eq!(table.texts(1, &["NPU MD5", "BENCH MD5", "Result"]), ["0000beef", "12345678", "Different"]);
    assert_eq!(table.rows[1].verdict, Verdict::Fail);
    assert!(outcome.advice.unwrap().starts_with("Line: 1\nSuspect Nodes: Torch.add.0.forward.output\n"));
}
