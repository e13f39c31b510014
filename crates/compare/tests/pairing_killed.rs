//! A run that was killed, compared with one that was not: wherever it ended, each call finds its own.

#![allow(clippy::unwrap_used)]

mod pairing_programs;

use std::fs;

use pairing_programs::assert_complete;
use tempfile::TempDir;
use ulpscope_compare::{How, Matching, PairOptions, Reason, Unit, pair};
use ulpscope_dump::{Dump, Rank, Select};

const HEADER: &str =
    r#"{"ulpscope":1,"task":"statistics","level":"mix","framework":"pytorch","dump_data_dir":null}"#;

/// The journal of a small network: in every layer a module with a linear in it, then two additions.
struct Journal {
    lines: Vec<String>,
    id: u32,
}

fn tensor(value: u32) -> String {
    format!(
        r#"{{"type":"torch.Tensor","dtype":"torch.float32","shape":[2,8],"Max":{value},"Min":0,"Mean":0,"Norm":1,"requires_grad":false}}"#
    )
}

impl Journal {
    fn begin(&mut self, name: &str, parent: Option<&str>) -> u32 {
        self.id += 1;
        let parent = parent.map(|parent| format!(r#","parent":"{parent}""#)).unwrap_or_default();
        self.lines.push(format!(
            r#"{{"call":"{name}","id":{}{parent},"data":{{"input_args":[{}],"input_kwargs":{{}}}}}}"#,
            self.id,
            tensor(self.id)
        ));
        self.id
    }

    fn end(&mut self, id: u32, last: bool) {
        let last = if last { r#","last":true"# } else { "" };
        self.lines.push(format!(r#"{{"end":{id}{last},"data":{{"output":[{}]}}}}"#, tensor(100 + id)));
    }

    fn call(&mut self, name: &str, parent: Option<&str>) {
        let id = self.begin(name, parent);
        self.end(id, false);
    }

    /// With so many layers, and as many calls more in front of them.
    fn of(layers: u32, extra: u32) -> Journal {
        let mut journal = Journal { lines: vec![HEADER.to_owned()], id: 0 };
        for number in 0..extra {
            journal.call(&format!("Torch.add.{number}.forward"), None);
        }
        for layer in 0..layers {
            let module = format!("Module.layers.{}.Linear.forward.{}", layer % 2, layer / 2);
            let id = journal.begin(&module, None);
            journal.call(&format!("Functional.linear.{layer}.forward"), Some(&module));
            journal.end(id, true);
            for number in 0..2 {
                journal.call(&format!("Torch.add.{}.forward", extra + 2 * layer + number), None);
            }
        }
        journal
    }

    fn open(lines: &[String], is_whole: bool) -> (Rank, TempDir) {
        let folder = TempDir::new().unwrap();
        let mut text = lines.join("\n") + "\n";
        if is_whole {
            text += "{\"ledger\":{\"seen\":1,\"recorded\":1}}\n";
        }
        fs::write(folder.path().join("journal.jsonl"), text).unwrap();
        if is_whole {
            ulpscope_dump::journal::finish(folder.path()).unwrap();
        }
        let dump = Dump::open(folder.path(), &Select::default()).unwrap();
        (dump.steps[0].ranks[0].open().unwrap(), folder)
    }
}

fn options(matching: Matching) -> PairOptions {
    PairOptions { matching, ..PairOptions::default() }
}

#[test]
fn wherever_a_run_ends_its_calls_pair_with_their_namesakes() {
    let journal = Journal::of(5, 0);
    let (whole, _kept) = Journal::open(&journal.lines, true);
    let mut running = 0;
    for end in 2..journal.lines.len() {
        let (killed, _kept) = Journal::open(&journal.lines[..end], false);
        running += killed.running().len();
        for matching in [Matching::Auto, Matching::Align] {
            for (target, golden) in [(&killed, &whole), (&whole, &killed)] {
                let pairing = pair(target, golden, &options(matching));
                assert_complete(&pairing, target.calls().len(), golden.calls().len());
                assert_eq!(pairing.counts.exact, killed.calls().len() as u64, "{end}: {:?}", pairing.units);
                for unit in &pairing.units {
                    match unit {
                        Unit::Pair(pair) => assert_eq!(target.name(pair.target), golden.name(pair.golden)),
                        Unit::TargetOnly { reason, .. } | Unit::GoldenOnly { reason, .. } => {
                            let told = reason.to_string();
                            assert!(told.contains("ended before this call"), "{end}: {told}");
                        }
                    }
                }
            }
        }
    }
    assert!(running > 20, "calls that were running");
}

#[test]
fn a_running_call_is_as_far_off_as_those_before_it() {
    let journal = Journal::of(3, 1);
    let (whole, _kept) = Journal::open(&Journal::of(3, 0).lines, true);
    let running = journal.lines.iter().position(|line| line.contains("Torch.add.4.forward")).unwrap();
    let (killed, _kept) = Journal::open(&journal.lines[..=running], false);
    let pairing = pair(&killed, &whole, &PairOptions::default());
    let last = killed.calls().len() - 1;
    let found = pairing.units.iter().find_map(|unit| match unit {
        Unit::Pair(pair) if pair.target == last => Some((whole.name(pair.golden), pair.how)),
        _ => None,
    });
    assert_eq!(found, Some(("Torch.add.3.forward".to_owned(), How::Aligned)));
}

#[test]
fn a_running_call_without_a_namesake_is_said_to_have_been_running() {
    let mut journal = Journal::of(2, 0);
    let (whole, _kept) = Journal::open(&journal.lines, true);
    journal.begin("Torch.tanh.0.forward", None);
    let (killed, _kept) = Journal::open(&journal.lines, false);
    let pairing = pair(&killed, &whole, &PairOptions::default());
    let last = pairing.units.last().unwrap();
    assert!(matches!(last, Unit::TargetOnly { reason: Reason::Running, .. }), "{last:?}");
    assert_eq!(Reason::Running.to_string(), "it was running when the run ended");
}
