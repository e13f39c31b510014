//! Replay as proof, with a prover that answers as each test says: which calls are asked for, and what follows.
#![allow(clippy::unwrap_used)]

mod kept_rows;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kept_rows::Kept;
use tempfile::TempDir;
use ulpscope_compare::standards::CheckStatus;
use ulpscope_compare::styles::ptdbg::{Ptdbg, Release};
use ulpscope_compare::{
    Agreement, COLUMNS, Known, Native, NoProgress, PROOF_COLUMNS, ProofVerdict, Prover, Proving, RankOutcome,
    RankResult, ReplayedError, Surroundings, WrongSide, agreement, compare_ranks_knowing,
};
use ulpscope_dump::{Dump, Rank, Select};

const COUNT: usize = 64;
const NAMES: [&str; 3] = ["Torch.exp.0.forward", "Torch.sin.0.forward", "Torch.tanh.0.forward"];

/// A chain of three calls, by the relative errors that each result has in the target.
struct Chain {
    errors: [f32; 3],
}

impl Chain {
    fn values(&self, call: usize) -> Vec<f32> {
        let value = |at: usize| {
            let share = ((at * 7919) % 997) as f32 / 498.0 - 1.0;
            (0.5 + ((at * 37) % 23) as f32 / 23.0) * (1.0 + self.errors[call] * share)
        };
        (0..COUNT).map(value).collect()
    }

    fn open(&self, folder: &Path, name: &str) -> Arc<Rank> {
        let folder = folder.join(name);
        fs::create_dir_all(folder.join("dump_tensor_data")).unwrap();
        let mut before = tensor(&folder, "x", &Chain { errors: [0.0; 3] }.values(0), "outside");
        let calls: Vec<String> = (0..NAMES.len())
            .map(|call| {
                let name = NAMES[call];
                let result = tensor(&folder, name, &self.values(call), &format!("{name}.output.0"));
                let given = std::mem::replace(&mut before, result.clone());
                format!(r#""{name}":{{"input_args":[{given}],"input_kwargs":{{}},"output":[{result}]}}"#)
            })
            .collect();
        let text = format!(r#"{{"task":"tensor","level":"L1","data":{{{}}}}}"#, calls.join(",\n"));
        let path = folder.join("dump.json");
        fs::write(&path, text).unwrap();
        let dump = Dump::open(&path, &Select::default()).unwrap();
        Arc::new(dump.steps[0].ranks[0].open().unwrap())
    }
}

fn tensor(folder: &Path, name: &str, values: &[f32], source: &str) -> String {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({COUNT},), }}");
    let mut whole = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    whole.extend(format!("{header:<117}\n").as_bytes());
    whole.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    fs::write(folder.join("dump_tensor_data").join(format!("{name}.npy")), whole).unwrap();
    let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    format!(
        r#"{{"type":"torch.Tensor","dtype":"torch.float32","shape":[{COUNT}],"Max":2,"Min":0,"Mean":1,"Norm":{norm},"requires_grad":false,"source":"{source}","data_name":"{name}.npy"}}"#
    )
}

/// Answers by the side and the call; the others are right.
#[derive(Default)]
struct Answers {
    own: HashMap<(&'static str, &'static str), Result<ReplayedError, String>>,
    asked: Mutex<Vec<String>>,
}

impl Answers {
    fn wrong(mut self, side: &'static str, call: &'static str, error: f64) -> Answers {
        self.own.insert((side, call), Ok(own(error)));
        self
    }

    fn unknown(mut self, side: &'static str, call: &'static str, why: &str) -> Answers {
        self.own.insert((side, call), Err(why.to_owned()));
        self
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn own(error: f64) -> ReplayedError {
    let ratio = error / 1e-7;
    let status = if ratio > 3.0 { CheckStatus::Error } else { CheckStatus::Pass };
    ReplayedError { error, floor: 1e-7, ratio, status, remark: String::new() }
}

impl Prover for Answers {
    fn replay(&self, rank: &Arc<Rank>, call: usize) -> Result<ReplayedError, String> {
        let side = if rank.path.to_string_lossy().contains("target") { "target" } else { "golden" };
        let name = rank.name(call);
        self.asked.lock().unwrap().push(format!("{side} {name}"));
        let known = self.own.iter().find(|((of, call), _)| *of == side && *call == name);
        known.map_or_else(|| Ok(own(5e-8)), |(_, answer)| answer.clone())
    }
}

struct Compared {
    outcome: RankOutcome,
    kept: Kept,
    verdict: Agreement,
}

fn compare(errors: [f32; 3], prover: Option<&dyn Prover>) -> Compared {
    let scratch = TempDir::new().unwrap();
    let target = Chain { errors }.open(scratch.path(), "target");
    let golden = Chain { errors: [0.0; 3] }.open(scratch.path(), "golden");
    let proving = prover.map(|prover| Proving { prover, ranks: [&target, &golden] });
    let known = Known { proving, ..Known::default() };
    let mut kept = Kept::default();
    let outcome =
        compare_ranks_knowing(&Native::default(), &target, &golden, known, &mut kept, &NoProgress).unwrap();
    let result = RankResult {
        step: None,
        is_after_last: false,
        target: String::new(),
        golden: String::new(),
        result: Ok((outcome.clone(), ())),
    };
    let verdict = agreement(&[result], Surroundings::default());
    Compared { outcome, kept, verdict }
}

fn blamed(outcome: &RankOutcome) -> Vec<&str> {
    outcome.divergences.iter().map(|one| one.call.as_str()).collect()
}

fn verdict_of(outcome: &RankOutcome) -> &ProofVerdict {
    &outcome.divergences[0].finding.proof.as_ref().unwrap().verdict
}

#[test]
fn who_is_far_from_the_reference_is_named() {
    let errors = [0.0, 1e-2, 1e-2];
    assert_eq!(blamed(&compare(errors, None).outcome), ["Torch.sin.0.forward"]);
    for (side, wrong) in [("target", WrongSide::Target), ("golden", WrongSide::Golden)] {
        let answers = Answers::default().wrong(side, "Torch.sin.0.forward", 1e-2);
        let Compared { outcome, .. } = compare(errors, Some(&answers));
        assert_eq!(blamed(&outcome), ["Torch.sin.0.forward"]);
        assert_eq!(*verdict_of(&outcome), ProofVerdict::Proved(wrong));
        // It was measured: no model of noise is needed.
        assert_eq!(outcome.divergences[0].finding.confidence, 1.0);
        assert_eq!(answers.asked(), ["target Torch.sin.0.forward", "golden Torch.sin.0.forward"]);
    }
}

#[test]
fn a_refuted_call_gives_way_to_the_wrong_one_before_it() {
    // The first call differs by a rounding or two, which passes for noise; the second multiplies that.
    let errors = [3e-7, 1e-2, 1e-2];
    assert_eq!(blamed(&compare(errors, None).outcome), ["Torch.sin.0.forward"]);
    let answers = Answers::default().wrong("target", "Torch.exp.0.forward", 4e-7);
    let Compared { outcome, .. } = compare(errors, Some(&answers));
    assert_eq!(blamed(&outcome), ["Torch.exp.0.forward"]);
    assert_eq!(*verdict_of(&outcome), ProofVerdict::Proved(WrongSide::Target));
    let refuted: Vec<&str> = outcome.refuted.iter().map(|one| one.call.as_str()).collect();
    assert_eq!(refuted, ["Torch.sin.0.forward"]);
}

#[test]
fn the_call_just_before_a_blamed_one_is_replayed_too() {
    let errors = [3e-7, 1e-2, 1e-2];
    let sin = "Torch.sin.0.forward";
    let answers = Answers::default().wrong("target", sin, 1e-2);
    assert_eq!(blamed(&compare(errors, Some(&answers)).outcome), [sin]);
    assert!(answers.asked().contains(&"golden Torch.exp.0.forward".to_owned()), "{:?}", answers.asked());
    let both = Answers::default().wrong("target", sin, 1e-2).wrong("golden", "Torch.exp.0.forward", 4e-7);
    let Compared { outcome, .. } = compare(errors, Some(&both));
    assert_eq!(blamed(&outcome), ["Torch.exp.0.forward", sin]);
    assert_eq!(*verdict_of(&outcome), ProofVerdict::Proved(WrongSide::Golden));
}

#[test]
fn a_call_that_was_cleared_narrowly_is_replayed() {
    // The largest error of the second call that still passes for noise, within a tenth.
    let chain = |error: f32| [0.0, error, error];
    let is_blamed = |error: f32| !blamed(&compare(chain(error), None).outcome).is_empty();
    let mut error = 1e-7_f32;
    while !is_blamed(error * 1.1) {
        error *= 1.1;
    }
    let answers = Answers::default();
    assert_eq!(compare(chain(error), Some(&answers)).verdict.exit_code(), 0);
    assert_eq!(answers.asked(), ["target Torch.sin.0.forward", "golden Torch.sin.0.forward"]);
    let wrong = Answers::default().wrong("target", "Torch.sin.0.forward", f64::from(error));
    let Compared { outcome, .. } = compare(chain(error), Some(&wrong));
    assert_eq!(blamed(&outcome), ["Torch.sin.0.forward"]);
    assert_eq!(*verdict_of(&outcome), ProofVerdict::Proved(WrongSide::Target));
    // Nobody doubts a tenth of it.
    let small = Answers::default();
    compare(chain(error / 10.0), Some(&small));
    assert!(small.asked().is_empty(), "{:?}", small.asked());
}

#[test]
fn nothing_is_clean_where_all_is_refuted_and_final_results_differ() {
    let Compared { outcome, verdict, .. } = compare([0.0, 1e-2, 1e-2], Some(&Answers::default()));
    assert_eq!(blamed(&outcome), [""; 0]);
    assert_eq!(outcome.refuted.len(), 1);
    assert!(matches!(verdict, Agreement::FinalResult(_)), "{verdict:?}");
    assert_eq!(verdict.exit_code(), 1);
}

#[test]
fn a_call_that_cannot_be_replayed_stays_blamed() {
    let answers = Answers::default().unknown("target", "Torch.sin.0.forward", "it draws random numbers");
    let with = compare([0.0, 1e-2, 1e-2], Some(&answers)).outcome;
    let without = compare([0.0, 1e-2, 1e-2], None).outcome;
    assert_eq!(blamed(&with), blamed(&without));
    assert_eq!(with.divergences[0].finding.confidence, without.divergences[0].finding.confidence);
    let why = ProofVerdict::NotReplayable("target: it draws random numbers".to_owned());
    assert_eq!(*verdict_of(&with), why);
}

#[test]
fn an_own_error_that_is_too_small_for_the_difference_is_no_proof() {
    let answers = Answers::default().wrong("target", "Torch.sin.0.forward", 1e-6);
    let Compared { outcome, verdict, .. } = compare([0.0, 1e-2, 1e-2], Some(&answers));
    assert_eq!(blamed(&outcome), [""; 0]);
    assert_eq!(verdict.exit_code(), 1);
}

#[test]
fn rows_have_the_numbers_of_both_sides() {
    let answers = Answers::default().wrong("golden", "Torch.sin.0.forward", 1e-2);
    let Compared { kept, outcome, .. } = compare([0.0, 1e-2, 1e-2], Some(&answers));
    assert_eq!(kept.columns.len(), COLUMNS.len() + PROOF_COLUMNS.len());
    assert!(kept.rows.iter().all(|row| row.cells.len() == kept.columns.len()));
    let row = &kept.rows[outcome.divergences[0].line as usize - 2];
    let cell = |name: &str| row.cells[kept.column(name)].to_string();
    assert_eq!(cell("proof"), "proved");
    assert_eq!(cell("wrong_side"), "golden");
    assert_eq!(cell("golden_own_error"), "0.01");
    assert_eq!(cell("target_own_error"), "5e-08");
    let plain = compare([0.0, 1e-2, 1e-2], None).kept;
    assert_eq!(plain.columns.len(), COLUMNS.len());
    assert!(plain.rows.iter().all(|row| row.cells.len() == COLUMNS.len()));
}

#[test]
fn a_run_without_findings_replays_nothing() {
    let answers = Answers::default();
    let Compared { verdict, .. } = compare([0.0; 3], Some(&answers));
    assert_eq!(verdict.exit_code(), 0);
    assert!(answers.asked().is_empty());
}

#[test]
fn the_rules_of_older_tools_cannot_be_proved() {
    let scratch = TempDir::new().unwrap();
    let [target, golden] =
        ["target", "golden"].map(|name| Chain { errors: [0.0; 3] }.open(scratch.path(), name));
    let proving = Some(Proving { prover: &Answers::default(), ranks: [&target, &golden] });
    let known = Known { proving, ..Known::default() };
    let style = Ptdbg { release: Release::V6, fuzzy: false };
    let error = compare_ranks_knowing(&style, &target, &golden, known, &mut Kept::default(), &NoProgress)
        .unwrap_err();
    assert!(error.to_string().contains("--prove is for the native style"), "{error}");
}
