//! The guard on final results: two runs that end in different numbers never agree, though no call is to blame.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use ulpscope_compare::{
    Agreement, Native, NoProgress, RankOutcome, RankResult, Row, Sink, Surroundings, agreement, compare_ranks,
};
use ulpscope_dump::{Dump, Rank, Select};

#[derive(Default)]
struct Rows(Vec<Row>);

impl Sink for Rows {
    fn columns(&mut self, _columns: &[String]) -> std::io::Result<()> {
        Ok(())
    }

    fn row(&mut self, row: Row) -> std::io::Result<()> {
        self.0.push(row);
        Ok(())
    }
}

/// A tensor of which only statistics were recorded.
fn tensor(size: f64, shape: &str, source: &str) -> String {
    let (max, min, mean) = (size / 4.0, -size / 4.0, size / 100.0);
    format!(
        r#"{{"type":"torch.Tensor","dtype":"torch.float32","shape":[{shape}],"Max":{max},"Min":{min},"Mean":{mean},
        "Norm":{size},"requires_grad":false,"source":"{source}"}}"#
    )
}

fn call(name: &str, inputs: &[String], output: &str) -> String {
    format!(r#""{name}":{{"input_args":[{}],"input_kwargs":{{}},"output":[{output}]}}"#, inputs.join(","))
}

/// `linear`, then attention in a way of its own with a mask that is a buffer, then `linear`.
fn run(folder: &Path, attention: &str, (mask, source): (&str, &str), size: f64) -> Rank {
    let (first, last) = ("Functional.linear.0.forward", "Functional.linear.1.forward");
    let of = |call: &str, size: f64| tensor(size, "8,8", &format!("{call}.output.0"));
    let weight = |name: &str| tensor(3.0, "8,8", &format!("parameter:{name}"));
    let calls = [
        call(first, &[tensor(8.0, "8,8", "outside"), weight("a")], &of(first, 9.0)),
        call(
            "Torch.relu.0.forward",
            &[tensor(2.0, mask, source)],
            &tensor(2.0, mask, "Torch.relu.0.forward.output.0"),
        ),
        call(
            attention,
            &[of(first, 9.0), tensor(2.0, mask, "Torch.relu.0.forward.output.0")],
            &of(attention, size),
        ),
        call(last, &[of(attention, size), weight("b")], &of(last, size)),
    ];
    fs::create_dir_all(folder).unwrap();
    let text = format!(r#"{{"task":"statistics","level":"L1","data":{{{}}}}}"#, calls.join(",\n"));
    fs::write(folder.join("dump.json"), text).unwrap();
    Dump::open(folder, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap()
}

fn compared(mask: &str, size: f64) -> (Agreement, RankOutcome, Rows) {
    compared_by_source(mask, "buffer:causal_mask", size)
}

fn compared_by_source(mask: &str, source: &str, size: f64) -> (Agreement, RankOutcome, Rows) {
    let scratch = TempDir::new().unwrap();
    let target = run(&scratch.path().join("t"), "Torch.bmm.0.forward", (mask, source), size);
    let golden = run(
        &scratch.path().join("g"),
        "Functional.scaled_dot_product_attention.0.forward",
        ("4,4", source),
        9.0,
    );
    let mut rows = Rows::default();
    let outcome = compare_ranks(&Native::default(), &target, &golden, &mut rows, &NoProgress).unwrap();
    let result = RankResult {
        step: None,
        is_after_last: false,
        target: String::new(),
        golden: String::new(),
        result: Ok((outcome, ())),
    };
    let verdict = agreement(std::slice::from_ref(&result), Surroundings::default());
    (verdict, result.result.unwrap().0, rows)
}

/// What goes into the attention has a different shape on each side, so nothing can be said of it; its result is too far apart all the same.
#[test]
fn a_final_result_that_no_call_explains_is_inconclusive() {
    let (verdict, outcome, rows) = compared("6,6", 12.0);
    assert!(matches!(verdict, Agreement::FinalResult(_)), "{verdict:?} {:?}", outcome.divergences);
    assert_eq!((verdict.answer().word(), verdict.exit_code()), ("inconclusive", 1));
    assert!(rows.0.iter().any(|row| format!("{row:?}").contains("unexplained")), "{:?}", rows.0);
}

#[test]
fn where_its_inputs_agree_the_attention_is_to_blame() {
    let (verdict, _, _) = compared("4,4", 12.0);
    assert!(
        matches!(&verdict, Agreement::Blamed { first, .. } if first == "Torch.bmm.0.forward"),
        "{verdict:?}"
    );
}

#[test]
fn results_within_rounding_are_not_unexplained() {
    let (verdict, outcome, _) = compared("4,4", 9.000_001);
    assert!(outcome.unexplained.is_none(), "{verdict:?}");
}

/// Batches that are cut in different ways: nothing can be said of results that differ, and nothing is said to agree.
#[test]
fn a_final_result_of_different_inputs_is_not_judged() {
    let (verdict, outcome, _) = compared_by_source("6,6", "outside", 12.0);
    assert_eq!(verdict, Agreement::Undecided { rows: 1, judged: true }, "{:?}", outcome.divergences);
    assert_eq!((verdict.answer().word(), verdict.exit_code()), ("inconclusive", 2));
    let note = "the final result Functional.linear.1.forward.output.0 differs and was not judged";
    assert!(outcome.notes.iter().any(|said| said.to_string().contains(note)), "{:?}", outcome.notes);
}
