//! Small programs as msprobe would have recorded them, and what pairing makes of two of them.

#![allow(dead_code)] // Each test file uses its own part.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;
use ulpscope_compare::{How, Matching, PairOptions, Pairing, Unit, pair};
use ulpscope_dump::{Dump, Rank, Select};

/// Calls in order, with the module each was made in.
#[derive(Clone, Default)]
pub struct Program {
    calls: Vec<(String, String)>,
    parents: Vec<(String, String)>,
    numbers: HashMap<String, u32>,
    parent: Option<String>,
    dtype: &'static str,
}

impl Program {
    pub fn new() -> Program {
        Program { dtype: "torch.float32", ..Program::default() }
    }

    /// Records what follows in another dtype.
    pub fn dtype(mut self, dtype: &'static str) -> Program {
        self.dtype = dtype;
        self
    }

    /// Makes what follows inside a module's call.
    pub fn inside(mut self, parent: &str) -> Program {
        self.parent = (!parent.is_empty()).then(|| parent.to_owned());
        self
    }

    /// A forward call of an API with one input and one output of a shape.
    pub fn api(mut self, base: &str, shape: &[u64]) -> Program {
        let number = self.number(base);
        let name = format!("{base}.{number}.forward");
        let tensor = self.tensor(shape);
        self.push(name, format!(r#"{{"input_args":[{tensor}],"input_kwargs":{{}},"output":[{tensor}]}}"#));
        self
    }

    /// A backward call of an API.
    pub fn backward(mut self, base: &str, number: u32, shape: &[u64]) -> Program {
        let tensor = self.tensor(shape);
        self.push(
            format!("{base}.{number}.backward"),
            format!(r#"{{"input":[{tensor}],"output":[{tensor}]}}"#),
        );
        self
    }

    /// A forward call of a module.
    pub fn module(mut self, path_and_class: &str, shape: &[u64]) -> Program {
        let base = format!("Module.{path_and_class}");
        let number = self.number(&base);
        let tensor = self.tensor(shape);
        let body = format!(
            r#"{{"input_args":[{tensor}],"input_kwargs":{{}},"output":[{tensor}],"parameters":{{}}}}"#
        );
        self.push(format!("{base}.forward.{number}"), body);
        self
    }

    /// A call with a body of one's own.
    pub fn raw(mut self, name: &str, body: &str) -> Program {
        self.push(name.to_owned(), body.to_owned());
        self
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    fn number(&mut self, base: &str) -> u32 {
        let next = self.numbers.entry(base.to_owned()).or_default();
        *next += 1;
        *next - 1
    }

    fn tensor(&self, shape: &[u64]) -> String {
        let dtype = self.dtype;
        format!(
            r#"{{"type":"torch.Tensor","dtype":"{dtype}","shape":{shape:?},"Max":1.0,"Min":0.0,"Mean":0.5,"Norm":1.0,"requires_grad":false}}"#
        )
    }

    fn push(&mut self, name: String, body: String) {
        if let Some(parent) = &self.parent {
            self.parents.push((name.clone(), parent.clone()));
        }
        self.calls.push((name, body));
    }

    /// Writes the program down and opens it.
    pub fn open(&self) -> Recorded {
        let folder = TempDir::new().unwrap();
        let mut text = String::from(r#"{"task":"statistics","level":"mix","dump_data_dir":null,"data":{"#);
        for (number, (name, body)) in self.calls.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(text, "{comma}\n\"{name}\":{body}").unwrap();
        }
        text.push_str("}}");
        let path = folder.path().join("dump.json");
        fs::write(&path, text).unwrap();
        let links: Vec<String> =
            self.parents.iter().map(|(child, parent)| format!("{child:?}:{parent:?}")).collect();
        fs::write(folder.path().join("construct.json"), format!("{{{}}}", links.join(",\n"))).unwrap();
        let rank = Dump::open(&path, &Select::default()).unwrap().steps[0].ranks[0].open().unwrap();
        Recorded { rank, _folder: folder }
    }
}

/// A program on disk.
pub struct Recorded {
    pub rank: Rank,
    _folder: TempDir,
}

/// Pairs two programs, and checks that every call is there once.
pub fn pair_programs(target: &Program, golden: &Program, matching: Matching) -> Paired {
    pair_with(target, golden, &PairOptions { matching, ..PairOptions::default() })
}

pub fn pair_with(target: &Program, golden: &Program, options: &PairOptions) -> Paired {
    let (target, golden) = (target.open(), golden.open());
    let pairing = pair(&target.rank, &golden.rank, options);
    assert_complete(&pairing, target.rank.calls().len(), golden.rank.calls().len());
    Paired { target, golden, pairing }
}

/// Every call of either side stands in exactly one unit, and the target's in order.
pub fn assert_complete(pairing: &Pairing, target: usize, golden: usize) {
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for unit in &pairing.units {
        match unit {
            Unit::Pair(pair) => {
                ours.push(pair.target);
                theirs.push(pair.golden);
            }
            Unit::TargetOnly { call, .. } => ours.push(*call),
            Unit::GoldenOnly { call, .. } => theirs.push(*call),
        }
    }
    assert_eq!(ours, (0..target).collect::<Vec<_>>());
    theirs.sort_unstable();
    assert_eq!(theirs, (0..golden).collect::<Vec<_>>());
    let counts = pairing.counts;
    assert_eq!(counts.pairs() + counts.target_only, target as u64);
    assert_eq!(counts.pairs() + counts.golden_only, golden as u64);
}

/// What came of it.
pub struct Paired {
    pub target: Recorded,
    pub golden: Recorded,
    pub pairing: Pairing,
}

impl Paired {
    /// One line per unit: `how: target = golden`, `target only: …: reason`, `golden only: …: reason`.
    pub fn lines(&self) -> Vec<String> {
        let (target, golden) = (&self.target.rank, &self.golden.rank);
        let line = |unit: &Unit| match unit {
            Unit::Pair(pair) => {
                format!("{}: {} = {}", pair.how, target.name(pair.target), golden.name(pair.golden))
            }
            Unit::TargetOnly { call, reason } => format!("target only: {}: {reason}", target.name(*call)),
            Unit::GoldenOnly { call, reason } => format!("golden only: {}: {reason}", golden.name(*call)),
        };
        self.pairing.units.iter().map(line).collect()
    }

    /// The lines that are not pairs of equal names.
    pub fn remarkable(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("exact: ")).collect()
    }

    /// The counterpart of each call of the target.
    pub fn partners(&self) -> HashMap<usize, usize> {
        let pairs = self.pairing.units.iter().filter_map(|unit| match unit {
            Unit::Pair(pair) => Some((pair.target, pair.golden)),
            _ => None,
        });
        pairs.collect()
    }

    pub fn all_are(&self, how: How) -> bool {
        self.pairing.units.iter().all(|unit| matches!(unit, Unit::Pair(pair) if pair.how == how))
    }
}
