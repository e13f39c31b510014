//! Dumps in which a call cannot be read, or says what cannot be, in every style of the older tools: nothing vanishes.
#![allow(clippy::unwrap_used)]

mod kept_rows;

use std::fs;
use std::path::Path;

use kept_rows::Kept;
use tempfile::TempDir;
use ulpscope_compare::styles::msprobe::Msprobe;
use ulpscope_compare::styles::msprobe1::Msprobe1;
use ulpscope_compare::styles::ptdbg::{Ptdbg, Release};
use ulpscope_compare::styles::torch_npu::TorchNpu;
use ulpscope_compare::{
    Agreement, NoProgress, RankOutcome, RankResult, Side, Style, Surroundings, agreement, compare_ranks,
};
use ulpscope_dump::{Dump, Rank, Select};
use ulpscope_report::Cell;

impl Kept {
    fn names(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.cells[0].to_string()).collect()
    }

    /// A cell of the last row.
    fn last(&self, column: &str) -> &Cell {
        &self.rows.last().unwrap().cells[self.column(column)]
    }
}

fn open(folder: &Path, side: Side, task: &str, calls: &[Vec<u8>]) -> Rank {
    let folder = folder.join(side.word());
    fs::create_dir_all(&folder).unwrap();
    let mut text = format!(r#"{{"task": "{task}", "data": {{"#).into_bytes();
    text.extend(calls.join(b",\n".as_slice()));
    text.extend(b"}}");
    let path = folder.join("dump.json");
    fs::write(&path, text).unwrap();
    Dump::open(&path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap()
}

fn compare(style: &dyn Style, task: &str, target: &[Vec<u8>], golden: &[Vec<u8>]) -> (Kept, RankOutcome) {
    let scratch = TempDir::new().unwrap();
    let target = open(scratch.path(), Side::Target, task, target);
    let golden = open(scratch.path(), Side::Golden, task, golden);
    let mut kept = Kept::default();
    let outcome = compare_ranks(style, &target, &golden, &mut kept, &NoProgress).unwrap();
    (kept, outcome)
}

fn verdict(outcome: RankOutcome) -> Agreement {
    let named = |side: Side| side.word().to_owned();
    let result = Ok((outcome, ()));
    agreement(
        &[RankResult {
            step: None,
            is_after_last: false,
            target: named(Side::Target),
            golden: named(Side::Golden),
            result,
        }],
        Surroundings::default(),
    )
}

/// A tensor with these statistics, and whatever follows them.
fn tensor(stats: [&str; 4], more: &str) -> String {
    let [max, min, mean, norm] = stats;
    format!(
        r#"{{"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": {max}, "Min": {min},
            "Mean": {mean}, "Norm": {norm}, "requires_grad": false{more}}}"#
    )
}

/// A call of one argument and one result.
fn call(name: &str, entry: &str) -> Vec<u8> {
    format!(
        r#""Torch.{name}.0.forward": {{"input_args": [{entry}], "input_kwargs": {{}}, "output": [{entry}]}}"#
    )
    .into_bytes()
}

fn plain(name: &str) -> Vec<u8> {
    call(name, &tensor(["1.5", "-1.5", "0.5", "2.5"], ""))
}

/// A call with an invalid text: an unknown escape, or bytes that are not UTF-8.
fn unreadable(name: &str) -> [Vec<u8>; 2] {
    let escape = call(name, r#"{"type": "str", "value": "a\qb"}"#);
    let bytes = call(name, r#"{"type": "str", "value": "a?b"}"#);
    let bytes = bytes.into_iter().map(|byte| if byte == b'?' { 0xff } else { byte }).collect();
    [escape, bytes]
}

fn mapping() -> Option<Vec<(String, String)>> {
    let rows = ["a", "b", "c"].iter().flat_map(|call| ["input", "output"].map(|role| (call, role)));
    let name = |(call, role)| format!("Torch.{call}.0.forward.{role}.0");
    Some(rows.map(|row| (name(row), name(row))).collect())
}

fn all_styles() -> Vec<(&'static str, Box<dyn Style>)> {
    vec![
        ("msprobe", Box::new(Msprobe::default())),
        ("msprobe fuzzy", Box::new(Msprobe { fuzzy: true, ..Msprobe::default() })),
        ("msprobe mapped", Box::new(Msprobe { data_mapping: mapping(), ..Msprobe::default() })),
        ("msprobe-1", Box::new(Msprobe1::default())),
        ("msprobe-1 fuzzy", Box::new(Msprobe1 { fuzzy: true, ..Msprobe1::default() })),
        ("msprobe-1 mapped", Box::new(Msprobe1 { data_mapping: mapping(), ..Msprobe1::default() })),
        ("ptdbg-6", Box::new(Ptdbg { release: Release::V6, fuzzy: false })),
    ]
}

#[test]
fn a_call_that_cannot_be_read_is_one_problem_and_costs_no_other() {
    let good = ["a", "b", "c"].map(plain);
    for (style_name, style) in all_styles() {
        for side in [Side::Target, Side::Golden] {
            for (place, bad) in
                (0..3).flat_map(|place| unreadable(["a", "b", "c"][place]).map(|bad| (place, bad)))
            {
                let mut damaged = good.clone();
                damaged[place] = bad;
                let (target, golden) = match side {
                    Side::Target => (&damaged, &good),
                    Side::Golden => (&good, &damaged),
                };
                let (kept, outcome) = compare(style.as_ref(), "statistics", target, golden);
                let told =
                    format!("{style_name}, {}, call {place}: {:?}", side.word(), outcome.problems.listed());
                assert_eq!(outcome.problems.count(), 1, "{told}");
                assert!(
                    outcome.problems.listed()[0].contains(&format!("{}/dump.json", side.word())),
                    "{told}"
                );
                for other in (0..3).filter(|other| *other != place) {
                    let row = format!("Torch.{}.0.forward.output.0", ["a", "b", "c"][other]);
                    assert!(kept.names().contains(&row), "{told}: {row} is missing among {:?}", kept.names());
                }
                assert_eq!(outcome.counts.passed, 4, "{told}");
                assert_eq!(verdict(outcome).exit_code(), 2, "{told}");
            }
        }
    }
}

#[test]
fn a_call_that_cannot_be_read_has_no_unpaired_entries() {
    let good = ["a", "b"].map(plain);
    let damaged = [plain("a"), unreadable("b")[0].clone()];
    for (target, golden) in [(&good, &damaged), (&damaged, &good)] {
        let (_, outcome) = compare(&Msprobe::default(), "statistics", target, golden);
        assert_eq!(outcome.partnerless, []);
    }
}

#[test]
fn torch_npu_reports_calls_that_cannot_be_read() {
    let good = ["a", "b"].map(plain);
    let damaged = [plain("a"), unreadable("b")[1].clone()];
    let (kept, outcome) = compare(&TorchNpu { match_shapes: false }, "statistics", &damaged, &good);
    assert_eq!(kept.names(), ["Torch.a.0.forward.input.0", "Torch.a.0.forward.output.0"]);
    let unread = |problem: &&String| !problem.contains("none recorded");
    assert_eq!(outcome.problems.listed().iter().filter(unread).count(), 1, "{:?}", outcome.problems.listed());
    assert!(outcome.partnerless.iter().all(|lone| lone.side == Side::Golden), "{:?}", outcome.partnerless);
}

#[test]
fn sizes_that_no_machine_has_are_counted_without_a_panic() {
    let huge = r#"{"type": "torch.Tensor", "dtype": "torch.int8", "shape": [9223372036854775808],
        "Max": 1, "Min": 0, "Mean": 0.5, "Norm": 1.0, "requires_grad": false, "data_name": "Torch.NAME.0.forward.ROLE.0.pt"}"#;
    // A tensor is named after its file.
    let calls = ["a", "b", "c"].map(|name| {
        let entry = |role: &str| huge.replace("NAME", name).replace("ROLE", role);
        let (input, output) = (entry("input"), entry("output"));
        format!(r#""Torch.{name}.0.forward": {{"input_args": [{input}], "output": [{output}]}}"#).into_bytes()
    });
    let mut styles = all_styles();
    styles.push(("ptdbg", Box::new(Ptdbg { release: Release::V4, fuzzy: false })));
    styles.push(("torch_npu", Box::new(TorchNpu { match_shapes: true })));
    for (name, style) in styles {
        let (kept, outcome) = compare(style.as_ref(), "tensor", &calls, &calls);
        assert_eq!(kept.rows.len(), 6, "{name}");
        assert_eq!(outcome.bytes, u64::MAX, "{name}");
        assert!(!outcome.problems.is_empty(), "{name}");
    }
}

#[test]
fn lines_of_a_mapping_that_match_nothing_are_reported() {
    let calls = ["a", "b"].map(plain);
    let own = |name: &str| format!("Torch.{name}.0.forward.input.0");
    let lines = vec![(own("a"), own("b")), (own("x"), own("a")), (own("b"), own("y"))];
    let expected = [
        "data mapping: \"Torch.x.0.forward.input.0: Torch.a.0.forward.input.0\": the target has no row \
         \"Torch.x.0.forward.input.0\"; the line has no effect",
        "data mapping: \"Torch.b.0.forward.input.0: Torch.y.0.forward.input.0\": the golden has no row \
         \"Torch.y.0.forward.input.0\"; the line has no effect",
    ];
    let styles: [Box<dyn Style>; 2] = [
        Box::new(Msprobe { data_mapping: Some(lines.clone()), ..Msprobe::default() }),
        Box::new(Msprobe1 { data_mapping: Some(lines), ..Msprobe1::default() }),
    ];
    for style in styles {
        let (_, outcome) = compare(style.as_ref(), "statistics", &calls, &calls);
        let notes: Vec<String> = outcome.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, expected);
    }
}

/// Calls with floats only, more of them than are looked at together, and one with whole numbers at the end.
#[test]
fn whole_numbers_after_many_floats_are_shown_as_floats() {
    let names: Vec<String> = (0..600).map(|number| format!("f{number}")).collect();
    let mut calls: Vec<Vec<u8>> = names.iter().map(|name| plain(name)).collect();
    calls.push(call("whole", &tensor(["2046", "7", "3", "1.0"], "")));
    let style = Msprobe::default();
    let (kept, _) = compare(&style, "statistics", &calls, &calls);
    assert_eq!(kept.last("NPU max"), &Cell::Exact(2046.0));
    assert_eq!(kept.last("Bench max"), &Cell::Exact(2046.0));
    // One `None` in the column, and whole numbers stay as they are.
    calls[500] = call("none", &tensor(["null", "1.0", "1.0", "1.0"], ""));
    let (kept, _) = compare(&style, "statistics", &calls, &calls);
    assert_eq!(kept.last("NPU max"), &Cell::Int(2046));
    assert_eq!(kept.last("NPU min"), &Cell::Exact(7.0));
}
