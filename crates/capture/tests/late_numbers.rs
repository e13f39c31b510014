//! Statistics that arrive after their line: what a finished step and a killed run have of them.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use ulpscope_capture::{Kind, NOT_ARRIVED, Plan, Recording, Settings};
use ulpscope_dump::journal::encode::{Numbers, TensorHead, TensorRest, Ticket};
use ulpscope_dump::journal::{self, JOURNAL_FILE, Layout};
use ulpscope_dump::writer::LateNumbers;
use ulpscope_dump::{Content, Dump, Rank, Select, TensorEntry};
use ulpscope_formats::json::Json;
use ulpscope_kernels::{Digest, Stats, Threads, stats};
use ulpscope_tensor::{DType, View};

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

    fn numbers(&self) -> Arc<LateNumbers> {
        self.recording.locked(|state| Arc::clone(&state.numbers))
    }

    /// Records a call with one tensor.
    fn call(&self, base: &str, rest: TensorRest<'_>) {
        let mut call = self.recording.meet_call(&Arc::from(base), Kind::Api);
        let mut sections = b"{\"input_args\":[".to_vec();
        TensorHead { class: "torch.Tensor", dtype: "torch.float64", shape: &[3] }.open(&mut sections);
        rest.close(&mut sections);
        sections.extend_from_slice(b"]}");
        self.recording.begin(&mut call, None, &sections).unwrap();
        let mut line = Vec::new();
        call.last_line().encode(&mut line);
        self.recording.end(&call, &line).unwrap();
    }

    /// Records a call whose tensor is measured later.
    fn late_call(&self, base: &str) -> Ticket {
        let ticket = self.numbers().ticket();
        self.call(base, TensorRest { ticket: Some(ticket), ..TensorRest::default() });
        ticket
    }

    /// The same, with a digest that comes with the numbers.
    fn late_call_with_digest(&self, base: &str) -> Ticket {
        let ticket = self.numbers().ticket();
        self.call(base, TensorRest { ticket: Some(ticket), has_late_digest: true, ..TensorRest::default() });
        ticket
    }

    fn finish(&self) -> Rank {
        let mut over = self.recording.locked(|state| state.turn(None));
        let (folder, _) = over.settle(&self.recording.plan, true).unwrap().unwrap();
        journal::make_dump(&folder, &Layout::Msprobe).unwrap();
        journal::remove(&folder).unwrap();
        open(&self.rank)
    }

    /// What a kill at this moment leaves.
    fn killed(&self) -> (TempDir, Rank) {
        let folder = tempfile::tempdir().unwrap();
        let rank = folder.path().join("step0").join("rank");
        fs::create_dir_all(&rank).unwrap();
        fs::copy(self.rank.join(JOURNAL_FILE), rank.join(JOURNAL_FILE)).unwrap();
        let rank = open(&rank);
        (folder, rank)
    }
}

fn open(folder: &Path) -> Rank {
    let dump = Dump::open(folder, &Select::default()).unwrap();
    dump.steps[0].ranks[0].open().unwrap()
}

fn measured(values: &[f64]) -> Stats {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    stats(&View::contiguous(DType::F64, vec![values.len()], &bytes).unwrap(), Threads::One)
}

fn numbers(values: &[f64]) -> Numbers {
    Numbers {
        stats: measured(values),
        is_scalar: false,
        digest: Some(Digest::Mix64(values[2].to_bits())),
        saved: None,
    }
}

/// The tensor of the nth call.
fn tensor(rank: &Rank, call: usize) -> TensorEntry {
    let entries = rank.entries(call).unwrap();
    match &entries[0].content {
        Content::Tensor(tensor) => (**tensor).clone(),
        other => panic!("{other:?}"),
    }
}

const VALUES: [[f64; 3]; 3] =
    [[-1.2345678901234567e-300, 0.0, 5e-324], [f64::NAN, f64::INFINITY, -7.0], [1.0, 2.0, 3.0]];

#[test]
fn a_dump_does_not_show_when_its_numbers_arrived() {
    let read = |program: &Program| fs::read(program.rank.join("dump.json")).unwrap();
    let at_once = Program::new(Settings::default());
    for values in VALUES {
        let stats = measured(&values);
        let digest = Digest::Mix64(values[2].to_bits()).to_string();
        let rest = TensorRest { stats: Some(&stats), digest: Some(&digest), ..TensorRest::default() };
        at_once.call("Torch.sin", rest);
    }
    at_once.finish();
    let late = Program::new(Settings::default());
    // One after its line, one before it, and one when its step has been replaced.
    let first = late.late_call_with_digest("Torch.sin");
    let early = late.numbers().ticket();
    late.numbers().arrive(early, numbers(&VALUES[1])).unwrap();
    late.call(
        "Torch.sin",
        TensorRest { ticket: Some(early), has_late_digest: true, ..TensorRest::default() },
    );
    let last = late.late_call_with_digest("Torch.sin");
    late.numbers().arrive(first, numbers(&VALUES[0])).unwrap();
    let mut over = late.recording.locked(|state| state.turn(None));
    over.numbers.arrive(last, numbers(&VALUES[2])).unwrap();
    let (folder, _) = over.settle(&late.recording.plan, true).unwrap().unwrap();
    journal::make_dump(&folder, &Layout::Msprobe).unwrap();
    assert_eq!(String::from_utf8(read(&late)).unwrap(), String::from_utf8(read(&at_once)).unwrap());
}

#[test]
fn numbers_that_never_arrive_are_counted() {
    let program = Program::new(Settings::default());
    let ticket = program.late_call("Torch.sin");
    program.late_call("Torch.cos");
    // Its line was never written: nothing is missing.
    program.numbers().ticket();
    program.numbers().arrive(ticket, numbers(&VALUES[2])).unwrap();
    let rank = program.finish();
    assert_eq!(tensor(&rank, 0).stats[0], Json::Float(3.0));
    assert!(tensor(&rank, 1).stats.iter().all(|stat| *stat == Json::Null));
    assert_eq!(rank.ledger().unwrap().unread, [(NOT_ARRIVED.to_owned(), 1)]);
    assert!(!fs::read_to_string(program.rank.join("dump.json")).unwrap().contains("pending"));
}

#[test]
fn a_killed_run_has_the_numbers_that_had_arrived() {
    let program = Program::new(Settings::default());
    let tickets = ["Torch.sin", "Torch.cos", "Torch.tan"].map(|base| program.late_call(base));
    program.numbers().arrive(tickets[1], numbers(&VALUES[1])).unwrap();
    let (_folder, rank) = program.killed();
    assert_eq!(rank.calls().len(), 3);
    assert!(rank.problems().is_empty(), "{:?}", rank.problems().listed());
    let arrived = tensor(&rank, 1);
    assert_eq!(arrived.non_finite().map(|counts| (counts.nan, counts.inf)), Some((1, 1)));
    assert!(tensor(&rank, 0).stats.iter().all(|stat| *stat == Json::Null));
    let said = rank.notes().iter().filter(|note| note.contains("had not arrived"));
    assert!(said.clone().any(|note| note.contains("2 tensors")), "{:?}", rank.notes());
}

#[test]
fn every_line_can_be_read_at_every_moment() {
    // Names of all lengths, so that rooms come to lie at every place of a page.
    let program = Program::new(Settings::default());
    let tickets: Vec<Ticket> = (0..400)
        .map(|number| program.late_call(&format!("Torch.{}", "x".repeat(1 + number * 7 % 151))))
        .collect();
    let mut journal = fs::read(program.rank.join(JOURNAL_FILE)).unwrap();
    for (number, ticket) in tickets.into_iter().enumerate() {
        program.numbers().arrive(ticket, numbers(&VALUES[number % 3])).unwrap();
        let next = fs::read(program.rank.join(JOURNAL_FILE)).unwrap();
        // Each write is within one page: it is there whole or not at all.
        let changed: Vec<usize> = (0..next.len()).filter(|&byte| next[byte] != journal[byte]).collect();
        let pages =
            |part: &[usize]| part.iter().map(|byte| byte >> 12).collect::<std::collections::BTreeSet<_>>();
        assert!(!changed.is_empty() && pages(&changed).len() <= 2, "{number}");
        let (first, last) = (changed[0], changed[changed.len() - 1]);
        if VALUES[number % 3].iter().all(|value| value.is_finite()) {
            assert_eq!(first >> 12, last >> 12, "{number}");
        }
        journal = next;
        if number % 40 == 0 {
            let (_folder, rank) = program.killed();
            assert!(rank.problems().is_empty(), "{:?}", rank.problems().listed());
            assert_eq!(rank.calls().len(), 400);
        }
    }
    let rank = program.finish();
    assert_eq!((rank.calls().len(), rank.ledger().unwrap().unread_tensors()), (400, 0));
}

#[test]
fn numbers_that_arrive_together_leave_the_same_bytes() {
    let journal_of = |at_a_time: usize| {
        let program = Program::new(Settings::default());
        let calls = (0..300).map(|number| format!("Torch.{}", "x".repeat(1 + number * 11 % 97)));
        let tickets: Vec<Ticket> = calls.map(|base| program.late_call_with_digest(&base)).collect();
        // In no order, and not all of them.
        let of = |number: usize| (tickets[number * 7 % 300], numbers(&VALUES[number % 3]));
        let all: Vec<(Ticket, Numbers)> = (0..280).map(of).collect();
        for part in all.chunks(at_a_time) {
            program.numbers().arrive_together(part.iter().cloned()).unwrap();
        }
        let (_folder, rank) = program.killed();
        assert!(rank.problems().is_empty(), "{:?}", rank.problems().listed());
        fs::read_to_string(program.rank.join(JOURNAL_FILE)).unwrap()
    };
    let (singly, together) = (journal_of(1), journal_of(70));
    // Stacks and calls have no times: nothing else differs.
    assert!(singly == together);
    assert_eq!(singly.matches("\"pending\":true").count(), 20);
}

#[test]
fn the_limit_of_bytes_includes_room() {
    let program = Program::new(Settings { max_bytes: Some(6000), ..Settings::default() });
    let tickets: Vec<Ticket> = (0..40).map(|_| program.late_call("Torch.sin")).collect();
    for ticket in tickets {
        program.numbers().arrive(ticket, numbers(&VALUES[2])).unwrap();
    }
    assert!(
        fs::read(program.rank.join(JOURNAL_FILE)).unwrap().iter().filter(|byte| **byte != 0).count() <= 6000
    );
    let rank = program.finish();
    assert!((5..40).contains(&rank.calls().len()), "{}", rank.calls().len());
    assert_eq!(rank.ledger().unwrap().unread_tensors(), 0);
}
