//! Random journals, truncated anywhere: what is read is what had been written by then.
#![allow(clippy::unwrap_used, missing_docs)]

mod dumps;

use std::fs;

use dumps::{Scratch, calls, rank};
use proptest::prelude::*;
use ulpscope_dump::{Rank, journal};

/// The next action of a program.
#[derive(Clone, Debug)]
enum Act {
    /// Begins a call inside the running one; a module is ordered by its end.
    Begin { module: bool, argument: String },
    /// More sections of the innermost call.
    More,
    /// The innermost call returns, or raises.
    End { raises: bool },
    /// A call in one line.
    Lone,
}

fn act() -> impl Strategy<Value = Act> {
    let argument = prop_oneof![Just(String::new()), "[a-z\\\\\"{}\\[\\]\n\u{e9}\u{1f600}]{0,12}"];
    prop_oneof![
        4 => (any::<bool>(), argument).prop_map(|(module, argument)| Act::Begin { module, argument }),
        1 => Just(Act::More),
        4 => any::<bool>().prop_map(|raises| Act::End { raises }),
        2 => Just(Act::Lone),
    ]
}

/// A call as it should be read: its name, its entries and its stack.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    name: String,
    paths: Vec<String>,
    stack: Option<usize>,
}

/// What should be read of a journal after some of its lines.
#[derive(Clone, Debug, Default)]
struct Model {
    calls: Vec<Known>,
    open: Vec<(u64, String, bool)>,
}

impl Model {
    fn at(&self, name: &str) -> usize {
        self.calls.iter().position(|call| call.name == name).unwrap()
    }
}

/// The lines of a program, and what should be read after each of them.
fn program(acts: &[Act]) -> Vec<(String, Model)> {
    let mut model = Model::default();
    let mut lines = vec![(
        r#"{"ulpscope":1,"task":"statistics","level":"L1","framework":"pytorch","dump_data_dir":null}"#
            .to_owned(),
        model.clone(),
    )];
    let quoted = |text: &str| {
        let mut out = Vec::new();
        let value = ulpscope_formats::json::Json::Str(text.to_owned());
        ulpscope_formats::json::write(&value, ulpscope_formats::json::Layout::OneLine, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    for (number, act) in acts.iter().enumerate() {
        match act {
            Act::Begin { module, argument } => {
                let name = if *module {
                    format!("Module.m{number}.M.forward.0")
                } else {
                    format!("Torch.f{number}.0.forward")
                };
                let frame = quoted(&format!("File {argument}, line 1, in f, \n x"));
                let frames = vec![frame; number % 3].join(",");
                lines.push((format!(r#"{{"stack":{number},"frames":[{frames}]}}"#), model.clone()));
                let value = quoted(argument);
                let id = 10 * number as u64;
                model.calls.push(Known {
                    name: name.clone(),
                    paths: vec!["0".to_owned()],
                    stack: Some(number % 3),
                });
                model.open.push((id, name.clone(), *module));
                lines.push((
                    format!(
                        r#"{{"call":"{name}","id":{id},"stack":{number},"data":{{"input_args":[{{"type":"str","value":{value}}}]}}}}"#
                    ),
                    model.clone(),
                ));
            }
            Act::More => {
                let Some((id, name, _)) = model.open.last().cloned() else { continue };
                let at = model.at(&name);
                model.calls[at].paths.push(format!("k{number}"));
                lines.push((
                    format!(r#"{{"more":{id},"data":{{"k{number}":{{"type":"int","value":1}}}}}}"#),
                    model.clone(),
                ));
            }
            Act::End { raises } => {
                let Some((id, name, module)) = model.open.pop() else { continue };
                let at = model.at(&name);
                if *raises {
                    lines.push((format!(r#"{{"raised":{id}}}"#), model.clone()));
                    continue;
                }
                // Ordered by role: results before saved values.
                model.calls[at].paths.insert(1, "0".to_owned());
                let last = if module { "\"last\":true," } else { "" };
                if module {
                    let call = model.calls.remove(at);
                    model.calls.push(call);
                }
                lines.push((format!(r#"{{"end":{id},{last}"data":{{"output":[null]}}}}"#), model.clone()));
            }
            Act::Lone => {
                let name = format!("Torch.f{number}.0.backward");
                lines.push((format!(r#"{{"call":"{name}","data":{{"input":[null]}}}}"#), {
                    let paths = vec!["0".to_owned()];
                    model.calls.push(Known { name, paths, stack: None });
                    model.clone()
                }));
            }
        }
    }
    lines
}

/// What is read of a rank, in the terms of the model.
fn read(rank: &Rank) -> Vec<Known> {
    let names = calls(rank);
    let known = |(call, name): (usize, String)| Known {
        paths: rank.entries(call).unwrap().into_iter().map(|entry| entry.path).collect(),
        stack: rank.stack(call).map(|stack| stack.len()),
        name,
    };
    names.into_iter().enumerate().map(known).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_cut_anywhere_reads_as_what_was_written_by_then(acts in prop::collection::vec(act(), 0..10)) {
        let lines = program(&acts);
        let scratch = Scratch::new();
        let path = scratch.path().join("journal.jsonl");
        let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        let mut whole = 0;
        let mut end_of_next = 0;
        for cut in 0..=text.len() {
            // A line counts from its last bracket on.
            if whole < lines.len() && cut == end_of_next + lines[whole].0.len() {
                end_of_next = cut + 1;
                whole += 1;
            }
            fs::write(&path, &text.as_bytes()[..cut]).unwrap();
            let rank = rank(&path);
            let model = match whole {
                0 => Model::default(),
                whole => lines[whole - 1].1.clone(),
            };
            prop_assert_eq!(read(&rank), model.calls.clone(), "cut at {}", cut);
            prop_assert!(rank.problems().is_empty(), "{:?}", rank.problems());
            let notes = rank.notes().join("\n");
            let torn = whole == 0 || cut > end_of_next;
            prop_assert_eq!(notes.contains("the run ended while it wrote"), torn, "{}", notes);
            let running: Vec<&str> = model.open.iter().rev().map(|(_, name, _)| name.as_str()).collect();
            prop_assert_eq!(notes.contains("ended inside"), !running.is_empty(), "{}", notes);
            for name in running.into_iter().take(9) {
                prop_assert!(notes.contains(name), "{} lacks {}", notes, name);
            }
            prop_assert!(!notes.is_empty());
        }
    }

    #[test]
    fn finishing_a_step_and_reading_its_journal_agree(acts in prop::collection::vec(act(), 0..40)) {
        let lines = program(&acts);
        let scratch = Scratch::new();
        let mut text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
        text += "{\"ledger\":{\"seen\":3,\"recorded\":3}}\n";
        let path = scratch.file("journal.jsonl", &text);
        let killed = scratch.rank();
        journal::finish(scratch.path()).unwrap();
        prop_assert!(!path.exists());
        let finished = scratch.rank();
        let model = &lines.last().unwrap().1;
        prop_assert_eq!(read(&finished), model.calls.clone());
        prop_assert_eq!(finished.problems().count(), 0);
        for call in 0..finished.calls().len() {
            let entries = |rank: &Rank| format!("{:?}", rank.entries(call).unwrap());
            prop_assert_eq!(entries(&killed), entries(&finished));
            prop_assert_eq!(killed.stack(call), finished.stack(call));
            prop_assert_eq!(killed.parent(call), finished.parent(call));
        }
        prop_assert_eq!(killed.ledger(), finished.ledger());
    }
}
