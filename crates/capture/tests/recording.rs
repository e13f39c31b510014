//! Calls of a simulated program, recorded without Python: the dump, and the ledger for the rest.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use ulpscope_capture::{
    Buffer, CallRecord, CallStack, Kind, ModuleLevel, NOT_SELECTED, NameTest, OVER_BYTES, OVER_CALLS, Plan,
    Recording, Settings, State,
};
use ulpscope_dump::{Dump, Ledger, Rank, Select, journal};

/// A program that is being recorded.
struct Program {
    _folder: TempDir,
    rank: PathBuf,
    recording: Recording,
}

impl Program {
    fn new(settings: Settings) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let rank = folder.path().join("step0").join("rank");
        let recording = Recording::new(Plan::new(settings).unwrap());
        recording.locked(|state| state.aim(rank.clone()));
        Program { _folder: folder, rank, recording }
    }

    /// Begins a call; it is recorded if selected.
    fn begin(&self, base: &str, kind: Kind, around: Option<&ModuleLevel>) -> CallRecord {
        let mut call = self.recording.meet_call(&Arc::from(base), kind);
        call.parent = around.map(|level| Arc::clone(&level.name));
        let is_selected = around.is_some_and(|level| level.is_selected);
        let selection = self.recording.select(&call, is_selected, around).unwrap();
        call.backward_left_out = selection.backward;
        match selection.forward {
            Some(why) => self.recording.locked(|state| state.ledger.skip(why)),
            None => self.recording.begin(&mut call, None, b"{\"input_args\":[null]}").unwrap(),
        }
        call
    }

    fn end(&self, call: &CallRecord) {
        if call.is_recorded() {
            let mut line = Vec::new();
            let sections = |out: &mut Vec<u8>| -> Result<(), ()> {
                out.extend_from_slice(b"{\"output\":[null]}");
                Ok(())
            };
            call.last_line().encode_with(&mut line, sections).unwrap();
            self.recording.end(call, &line).unwrap();
        }
        self.recording.leave_scope(call);
    }

    fn call(&self, base: &str) {
        let call = self.begin(base, Kind::Api, None);
        self.end(&call);
    }

    /// Ends the step, and reads its dump.
    fn finish(&self) -> (Vec<String>, Ledger) {
        let mut over = self.recording.locked(|state| state.turn(None));
        over.note_unmatched(&self.recording.plan);
        if over.has_something_to_say() {
            over.begin_files(&self.recording.plan).unwrap();
        }
        let (folder, _) = over.settle(&self.recording.plan, true).unwrap().unwrap();
        journal::make_dump(&folder, &journal::Layout::Msprobe).unwrap();
        journal::remove(&folder).unwrap();
        let rank = open(&self.rank);
        (names(&rank), rank.ledger().unwrap())
    }
}

fn open(folder: &Path) -> Rank {
    let dump = Dump::open(folder, &Select::default()).unwrap();
    dump.steps[0].ranks[0].open().unwrap()
}

fn names(rank: &Rank) -> Vec<String> {
    (0..rank.calls().len()).map(|call| rank.name(call)).collect()
}

fn count(counts: &[(String, u64)], why: &str) -> u64 {
    counts.iter().find(|(known, _)| known == why).map_or(0, |(_, count)| *count)
}

fn level_of(module: &CallRecord, is_selected: bool) -> ModuleLevel {
    let name = Arc::clone(&module.name);
    ModuleLevel {
        recorder: 1,
        name,
        is_listed: false,
        is_backward_listed: false,
        is_backward_first: false,
        is_selected,
        is_muted: false,
    }
}

#[test]
fn calls_are_selected_by_the_modules_they_run_in_and_by_their_names() {
    let program = Program::new(Settings { in_modules: true, ..Settings::default() });
    let module = program.begin("Module.fc.Linear", Kind::Module, None);
    for is_selected in [true, false] {
        program.end(&program.begin("Functional.linear", Kind::Api, Some(&level_of(&module, is_selected))));
    }
    let (calls, ledger) = program.finish();
    assert_eq!(calls, ["Functional.linear.0.forward"]);
    assert_eq!(count(&ledger.skipped, NOT_SELECTED), 2);

    let plan = Plan::new(Settings::default()).unwrap();
    let plan = plan.with_call_test(NameTest::new(|name| match name {
        "Torch.mul.0.forward" => Err("Ctrl-C".into()),
        name => Ok(name.contains("relu")),
    }));
    assert!(plan.selects() && plan.is_selected("Torch.relu.0.forward", false).unwrap());
    assert!(!plan.is_selected("Torch.add.0.forward", true).unwrap());
    assert_eq!(plan.is_selected("Torch.mul.0.forward", true).unwrap_err().to_string(), "Ctrl-C");
}

#[test]
fn calls_are_numbered_by_name_and_modules_follow_what_runs_within_them() {
    let program = Program::new(Settings { level: "mix".to_owned(), ..Settings::default() });
    let module = program.begin("Module.fc.Linear", Kind::Module, None);
    let level = level_of(&module, false);
    let inner = program.begin("Functional.linear", Kind::Api, Some(&level));
    program.end(&inner);
    program.end(&module);
    program.call("Torch.add");
    program.call("Torch.add");
    let (calls, ledger) = program.finish();
    let expected = [
        "Functional.linear.0.forward",
        "Module.fc.Linear.forward.0",
        "Torch.add.0.forward",
        "Torch.add.1.forward",
    ];
    assert_eq!(calls, expected);
    assert_eq!((ledger.seen, ledger.recorded, ledger.ended), (4, 4, None));
    assert_eq!(open(&program.rank).parent(0).as_deref(), Some("Module.fc.Linear.forward.0"));
}

#[test]
fn a_call_that_raises_is_there_without_results_and_is_counted() {
    let program = Program::new(Settings::default());
    let call = program.begin("Torch.mm", Kind::Api, None);
    program.recording.raise(&call, "RuntimeError", Buffer::new(), true).unwrap();
    // Left early because no more is needed: not an error.
    let call = program.begin("Torch.mm", Kind::Api, None);
    program.recording.raise(&call, "_StopRecomputationError", Buffer::new(), false).unwrap();
    let (calls, ledger) = program.finish();
    assert_eq!(calls, ["Torch.mm.0.forward", "Torch.mm.1.forward"]);
    assert_eq!((ledger.seen, ledger.recorded), (2, 1));
    assert_eq!(ledger.raised, [("Torch.mm: RuntimeError".to_owned(), 1)]);
}

#[test]
fn what_a_model_returned_is_numbered_by_the_calls_of_the_dump() {
    let program = Program::new(Settings::default());
    program.call("Torch.add");
    // Its results could not be recorded, but it is in the dump.
    program.begin("Torch.mul", Kind::Api, None);
    program.recording.locked(|state| state.ledger.take_back());
    let call = program.begin("Torch.mm", Kind::Api, None);
    program.recording.raise(&call, "RuntimeError", Buffer::new(), true).unwrap();
    program.recording.locked(|state| state.returned(vec![("0".to_owned(), None)]));
    program.call("Torch.relu");
    let (calls, ledger) = program.finish();
    assert_eq!((calls.len(), ledger.recorded), (4, 2));
    assert_eq!(ledger.returned.iter().map(|call| call.calls).collect::<Vec<u64>>(), [3]);
}

#[test]
fn what_a_list_does_not_select_is_counted_and_entries_without_a_match_are_noted() {
    let list = vec!["relu".to_owned(), "conv".to_owned()];
    let program = Program::new(Settings { list, ..Settings::default() });
    program.call("Torch.add");
    program.call("Torch.relu");
    let (calls, ledger) = program.finish();
    assert_eq!(calls, ["Torch.relu.0.forward"]);
    assert_eq!(count(&ledger.skipped, NOT_SELECTED), 1);
    assert_eq!(ledger.notes.len(), 1);
    assert!(ledger.notes[0].contains("\"conv\""), "{:?}", ledger.notes);
}

#[test]
fn a_scope_holds_both_of_its_ends() {
    let scope = vec!["Torch.b.0.forward".to_owned(), "Torch.b.1.forward".to_owned()];
    let program = Program::new(Settings { scope, ..Settings::default() });
    for base in ["Torch.a", "Torch.b", "Torch.a", "Torch.b", "Torch.a"] {
        program.call(base);
    }
    let (calls, ledger) = program.finish();
    assert_eq!(calls, ["Torch.b.0.forward", "Torch.a.1.forward", "Torch.b.1.forward"]);
    assert_eq!((ledger.seen, ledger.recorded, count(&ledger.skipped, NOT_SELECTED)), (5, 3, 2));
}

#[test]
fn max_calls_leaves_the_beginning_of_the_run() {
    let program = Program::new(Settings { max_calls: Some(2), ..Settings::default() });
    for _ in 0..5 {
        program.call("Torch.add");
    }
    let (calls, ledger) = program.finish();
    assert_eq!(calls, ["Torch.add.0.forward", "Torch.add.1.forward"]);
    assert_eq!(count(&ledger.skipped, OVER_CALLS), 3);
    assert!(ledger.limited && ledger.ended.is_some());
}

#[test]
fn nothing_that_would_be_more_than_max_bytes_is_written() {
    for max_bytes in [200, 300, 301, 500] {
        let program = Program::new(Settings { max_bytes: Some(max_bytes), ..Settings::default() });
        for _ in 0..20 {
            program.call("Torch.add");
        }
        let (_, written) = program.recording.locked(|state| state.so_far());
        assert!(written <= max_bytes, "{written} of {max_bytes}");
        let (calls, ledger) = program.finish();
        let left_out: u64 = ledger.skipped.iter().map(|(_, count)| count).sum();
        assert_eq!(ledger.recorded + left_out, 20, "{ledger:?}");
        assert!(calls.len() < 20 && count(&ledger.skipped, OVER_BYTES) > 0, "{ledger:?}");
        assert!(ledger.limited);
    }
}

#[test]
fn a_call_that_ends_in_another_step_belongs_to_neither() {
    let program = Program::new(Settings::default());
    let late = program.begin("Torch.add", Kind::Api, None);
    let next = program.rank.parent().unwrap().with_file_name("step1").join("rank");
    let mut over = program.recording.locked(|state| state.turn(Some(next)));
    over.settle(&program.recording.plan, true).unwrap();
    program.end(&late);
    program.recording.locked(|state| {
        let ledger = state.ledger.report(None, None);
        assert_eq!((ledger.seen, ledger.recorded, ledger.notes.len()), (0, 0, 1));
    });
    // In its own step the call has begun and never returned.
    let rank = open(&program.rank);
    assert_eq!((names(&rank).len(), rank.running().len()), (1, 1));
}

#[test]
fn stacks_are_written_once_and_a_step_without_calls_has_nothing_to_say() {
    let program = Program::new(Settings::default());
    assert!(!program.recording.locked(|state| state.has_something_to_say()));
    program.recording.locked(State::withdraw);
    assert!(!program.recording.locked(|state| state.is_aimed()));
    program.recording.locked(|state| state.aim(program.rank.clone()));
    let stack =
        CallStack { id: 3, is_kept: true, frames: "[\"File a, line 1\"]".to_owned(), ..CallStack::default() };
    for _ in 0..2 {
        let mut call = program.recording.meet_call(&Arc::from("Torch.add"), Kind::Api);
        program.recording.begin(&mut call, Some(&stack), b"{}").unwrap();
        program.end(&call);
    }
    let text = std::fs::read_to_string(program.rank.join(journal::JOURNAL_FILE)).unwrap();
    assert_eq!(text.matches("{\"stack\":3,").count(), 1);
    program.finish();
    let rank = open(&program.rank);
    assert_eq!(rank.stack(1).unwrap(), ["File a, line 1"]);
}

#[test]
fn settings_that_mean_nothing_are_refused_by_name() {
    let refused = |settings: Settings| Plan::new(settings).unwrap_err().to_string();
    let digest = Settings { digest: Some("sha".to_owned()), ..Settings::default() };
    assert_eq!(refused(digest), "digest: expected md5, xxh3, mix64, found sha");
    let format = Settings { file_format: "csv".to_owned(), ..Settings::default() };
    assert_eq!(refused(format), "file_format: expected pack, pt, npy, safetensors, found csv");
    let scope = Settings { scope: vec!["a".to_owned()], ..Settings::default() };
    assert_eq!(refused(scope), "scope: expected two names, the first and the last, found a");
}
