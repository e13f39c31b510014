//! Backward calls whose gradients arrive one by one, in any order, in one pass or several.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use ulpscope_capture::{
    CallRecord, Kind, NOT_SELECTED, PendingBackward, Plan, Recording, Settings, StartedBackwards,
    backward_name,
};
use ulpscope_dump::journal::JOURNAL_FILE;

/// A part of a gradient; a tensor outside of tests.
type Part = &'static str;

struct Run {
    _folder: TempDir,
    rank: PathBuf,
    recording: Recording,
}

fn run() -> Run {
    run_with(Settings::default())
}

fn run_with(settings: Settings) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let rank = folder.path().join("step0").join("rank");
    let recording = Recording::new(Plan::new(settings).unwrap());
    recording.locked(|state| state.aim(rank.clone()));
    Run { _folder: folder, rank, recording }
}

impl Run {
    /// The lines of the journal after its header.
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.rank.join(JOURNAL_FILE)).unwrap();
        text.trim_end_matches('\0').lines().skip(1).map(str::to_owned).collect()
    }
}

fn call(run: &Run) -> CallRecord {
    run.recording.meet_call(&Arc::from("Torch.mul"), Kind::Api)
}

fn text(word: &str) -> Option<Vec<u8>> {
    Some(format!("{{\"value\":\"{word}\"}}").into_bytes())
}

#[test]
fn a_backward_call_is_written_with_its_last_hook() {
    let run = run();
    let mut pending = PendingBackward::<Part>::of(&call(&run), 1, &[1, 1], vec![(0, vec![1])], 2);
    assert!(pending.is_untouched());
    assert_eq!(pending.meet(&run.recording, 0), None);
    pending.results[0].text = text("arrives");
    let (is_first, finished) = pending.served(0);
    assert!(is_first && finished.is_none() && !pending.is_untouched());
    assert_eq!(pending.meet(&run.recording, 1), None);
    pending.arguments[0].set(text("given"));
    let (is_first, finished) = pending.served(1);
    assert!(!is_first);
    run.recording.write_backward(finished.unwrap()).unwrap();
    let expected = r#"{"call":"Torch.mul.0.backward","data":{"input":[{"value":"arrives"}],"output":[{"value":"given","shared_with":[1]},null]}}"#;
    assert_eq!(run.lines(), [expected]);
    let ledger = run.recording.locked(|state| state.ledger.report(None, None));
    assert_eq!((ledger.seen, ledger.recorded), (2, 1));
}

#[test]
fn a_second_pass_and_one_in_a_later_step_have_names_of_their_own() {
    let run = run();
    let mut pending = PendingBackward::<Part>::of(&call(&run), 1, &[], Vec::new(), 1);
    for expected in ["Torch.mul.0.backward", "Torch.mul@2.0.backward"] {
        pending.meet(&run.recording, 0);
        assert_eq!(&*pending.name(), expected);
        pending.served(0).1.unwrap();
    }
    drop(run.recording.locked(|state| state.turn(Some(run.rank.clone()))));
    pending.meet(&run.recording, 0);
    assert_eq!(&*pending.name(), "Torch.mul@-1@3.0.backward");
    // Gradients of a finished step are lost, and do not count for this one.
    drop(run.recording.locked(|state| state.turn(Some(run.rank.clone()))));
    assert!(pending.take_outdated(&run.recording).is_some());
    assert!(!pending.is_met());
}

#[test]
fn a_hook_that_fails_first_takes_its_call_with_it_and_a_later_one_does_not() {
    let run = run();
    let mut pending = PendingBackward::<Part>::of(&call(&run), 1, &[], Vec::new(), 2);
    pending.meet(&run.recording, 0);
    assert!(pending.failed());
    assert!(!pending.is_met());
    pending.meet(&run.recording, 0);
    pending.served(0);
    pending.meet(&run.recording, 1);
    assert!(!pending.failed());
    assert!(pending.is_met());
}

#[test]
fn a_pass_returns_only_its_own_calls() {
    let run = run();
    let started = StartedBackwards::<Part>::default();
    let make = || Arc::new(Mutex::new(PendingBackward::of(&call(&run), 1, &[], Vec::new(), 1)));
    assert!(started.keep(7, make()));
    assert!(!started.keep(7, make()));
    assert!(started.keep(8, make()));
    assert_eq!(started.take(7).len(), 2);
    assert_eq!(started.take(7).len(), 0);
    assert_eq!(started.take_all().len(), 1);
}

#[test]
fn the_number_of_a_backward_call_stands_where_that_of_its_forward_call_does() {
    assert_eq!(backward_name("Torch.mul.3.forward").as_deref(), Some("Torch.mul.3.backward"));
    assert_eq!(backward_name("Module.fc.Linear.forward.3").as_deref(), Some("Module.fc.Linear.backward.3"));
    assert_eq!(backward_name("Torch.mul.3.backward"), None);
}

#[test]
fn the_first_hook_of_a_pass_decides_whether_it_is_in_the_scope() {
    let scope = vec!["Torch.mul@2.0.backward".to_owned(), "Torch.mul@2.0.backward".to_owned()];
    let run = run_with(Settings { scope, ..Settings::default() });
    let mut pending = PendingBackward::<Part>::of(&call(&run), 1, &[], Vec::new(), 2);
    // The first pass is outside: both hooks are passed by, and it is counted once.
    for (hook, is_new) in [(0, true), (1, false)] {
        assert_eq!(pending.meet(&run.recording, hook), Some(NOT_SELECTED));
        assert_eq!(pending.pass_by(hook), is_new);
    }
    assert_eq!(pending.meet(&run.recording, 1), None);
    assert_eq!(&*pending.name(), "Torch.mul@2.0.backward");
    assert!(pending.served(1).1.is_none());
    assert_eq!(pending.meet(&run.recording, 0), None);
    run.recording.write_backward(pending.served(0).1.unwrap()).unwrap();
    // The scope is over.
    assert_eq!(pending.meet(&run.recording, 0), Some(NOT_SELECTED));
    assert_eq!(run.lines().len(), 1);
}
