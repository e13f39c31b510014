//! Compares the operators of a whole network: the dump of an Ascend device with what TensorFlow computed, or with the
//! dump of a second device.
//!
//! ```text
//! GE graph ──► op_graph: which tensor of the framework each output is ──┐
//! NPU dump ──► npu_dump: files by operator ─────────────────────────────┼─► unit (an operator) ──► rows
//! TensorFlow's dump or a second NPU dump ──► golden: tensors by name ───┘
//! ```
//!
//! The compiler renames, fuses and adds operators. The graph says for each output which operator of the framework it
//! came from, and in which layout that one had it. A `Cast` or `TransData` that the compiler added passes on the tensor
//! before it: such operators are walked through. Rows are those of msaccucmp, in the order of the graph.

mod golden;
mod network_error;
mod npu_dump;
mod op_graph;
mod pairs;
mod row;
mod single_op;
mod unit;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
/// Which steps and devices: part of a request.
pub use ulpscope_dump::Select;
use ulpscope_dump::{Dump, Rank, RankPlace, Step, Tool};

use golden::Golden;
pub use network_error::NetworkError;
use npu_dump::NpuDump;
use op_graph::OpGraph;
pub use row::{NetworkColumns, NetworkRow, RowState};
pub use single_op::{SingleOp, TensorPlace, TopElement};
use unit::Unit;

/// Operators whose rows are in memory at a time.
const BATCH: usize = 64;

/// The cosine below which precision_tool calls two tensors different.
pub const MIN_COSINE: f64 = 0.98;

/// Maximum names in a note.
const SHOWN: usize = 5;

/// What to compare.
#[derive(Clone, Debug)]
pub struct NetworkRequest {
    /// The dump of the device.
    pub target: PathBuf,
    /// What TensorFlow dumped, or a second dump of a device.
    pub golden: PathBuf,
    /// The graph of the target: a file, or a folder with the graphs of a run. Two NPU dumps need none.
    pub graph: Option<PathBuf>,
    /// The graph of the golden. Of an NPU dump: if it is that of a different graph, with fusion switched off, for example.
    /// Of TensorFlow (`.meta`): says which operators read the values of variables.
    pub golden_graph: Option<PathBuf>,
    /// Steps and devices of both.
    pub select: Select,
    /// The cosine below which tensors differ.
    pub min_cosine: f64,
}

/// The operators of one device and step, ready to be compared.
pub struct Network {
    /// The step, if the dump has steps.
    pub step: Option<u64>,
    /// The device, `device0`; empty if the dump does not say it.
    pub device: String,
    /// Files of operators that cannot be read, and why.
    pub problems: Vec<String>,
    /// What else a reader of the rows should know: operators without a graph, files beside the dump.
    pub notes: Vec<String>,
    npu: NpuDump,
    golden: Golden,
    graph: OpGraph,
    units: Vec<Unit>,
    min_cosine: f64,
}

impl Network {
    /// Opens everything that a request names: one network for each step and device of the target.
    pub fn open(request: &NetworkRequest) -> Result<Vec<Network>, NetworkError> {
        let target = Dump::open(&request.target, &request.select)?;
        let golden = Dump::open(&request.golden, &request.select)?;
        let mut networks = Vec::new();
        let mut notes = Vec::new();
        for step in &target.steps {
            for place in &step.ranks {
                let npu = place.open()?;
                if npu.tool != Tool::Acl {
                    return Err(NetworkError::NotAnNpuDump {
                        path: request.target.clone(),
                        found: npu.describe(),
                    });
                }
                let Some(counterpart) = counterpart(&golden, &target, step, place) else {
                    let of_target = place_words(step.number, &place.name);
                    notes.push(format!("not compared (no counterpart in the golden): {of_target}"));
                    continue;
                };
                networks.push(Network::of(request, npu, counterpart.open()?, step.number, &place.name)?);
            }
        }
        match networks.first_mut() {
            Some(first) => {
                first.notes.append(&mut notes);
                first
                    .notes
                    .extend([&target, &golden].iter().flat_map(|dump| dump.problems.listed().to_vec()));
            }
            None => return Err(NetworkError::NoCounterpart(request.golden.clone())),
        }
        Ok(networks)
    }

    fn of(
        request: &NetworkRequest,
        npu: Rank,
        golden: Rank,
        step: Option<u64>,
        device: &str,
    ) -> Result<Network, NetworkError> {
        let mut problems = npu.problems().listed().to_vec();
        problems.extend_from_slice(golden.problems().listed());
        let mut notes = Vec::new();
        let npu = NpuDump::of(npu);
        let graph = match &request.graph {
            Some(path) => OpGraph::of_dump(path, &npu)?,
            None if golden.tool == Tool::Acl => OpGraph::default(),
            None => return Err(NetworkError::NeedsGraph(request.golden.clone())),
        };
        if request.graph.is_some() {
            notes.extend(belonging(&graph, &npu));
        }
        let golden = Golden::of(golden, request.golden_graph.as_deref())?;
        let units = unit::units(&graph, &npu);
        let device = device.to_owned();
        Ok(Network {
            step,
            device,
            problems,
            notes,
            npu,
            golden,
            graph,
            units,
            min_cosine: request.min_cosine,
        })
    }

    /// The number of operators.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// The columns of the rows: with a second NPU dump the ground truth has an address too.
    pub fn columns(&self, has_overflow: bool) -> NetworkColumns {
        NetworkColumns { has_golden_address: self.golden.is_npu(), has_overflow }
    }

    /// Compares every operator, on all cores. `sink` gets the rows in order; what it returns ends the comparison.
    /// `done` is called with the number of operators after each portion.
    pub fn compare<E>(
        &self,
        done: &dyn Fn(usize),
        mut sink: impl FnMut(NetworkRow) -> Result<(), E>,
    ) -> Result<(), E> {
        for batch in self.units.chunks(BATCH) {
            let rows: Vec<Vec<NetworkRow>> = batch.par_iter().map(|unit| self.rows(unit)).collect();
            rows.into_iter().flatten().try_for_each(&mut sink)?;
            done(batch.len());
        }
        Ok(())
    }
}

/// The rank of the golden for one of the target: that of the same step and number. The only one of the golden stands for
/// each of the target if it has no number, and for one with a different number if that is the only one too.
fn counterpart<'a>(golden: &'a Dump, target: &Dump, step: &Step, place: &RankPlace) -> Option<&'a RankPlace> {
    let steps = same_or_only(&golden.steps, |one| one.number, step.number, target.steps.len())?;
    same_or_only(&steps.ranks, |one| one.number, place.number, step.ranks.len())
}

fn same_or_only<T>(
    all: &[T],
    number: impl Fn(&T) -> Option<u64>,
    wanted: Option<u64>,
    targets: usize,
) -> Option<&T> {
    let only = || match all {
        [one] if number(one).is_none() || targets == 1 => Some(one),
        _ => None,
    };
    all.iter().find(|one| number(one) == wanted).or_else(only)
}

/// `step 3, device0`.
fn place_words(step: Option<u64>, device: &str) -> String {
    let step = step.map(|number| format!("step {number}"));
    let device = Some(device.to_owned()).filter(|device| !device.is_empty());
    let words: Vec<String> = step.into_iter().chain(device).collect();
    if words.is_empty() { "the calls without a step".to_owned() } else { words.join(", ") }
}

/// Which operators the graph and the dump do not have in common, with counts.
fn belonging(graph: &OpGraph, npu: &NpuDump) -> Vec<String> {
    let unknown: Vec<&str> = npu.names().filter(|name| !graph.has_flat(name)).collect();
    let mut notes = Vec::new();
    if !unknown.is_empty() {
        notes.push(format!(
            "{} of {} operators of the dump are not in the graph {}, so that it may belong to a different run: {}",
            unknown.len(),
            npu.names().count(),
            graph.path().display(),
            shown(&unknown)
        ));
    }
    let lone: Vec<&str> = graph.names().filter(|name| !npu.has(name)).collect();
    if !lone.is_empty() {
        notes.push(format!(
            "{} of {} operators of the graph have no dump file: {}",
            lone.len(),
            graph.names().count(),
            shown(&lone)
        ));
    }
    notes
}

fn shown(names: &[&str]) -> String {
    let listed = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{listed} and {more} more"),
        _ => listed,
    }
}

/// The path of a file that was found below a rank's folder.
fn below(rank: &Rank, path: &Path) -> PathBuf {
    rank.path.join(path)
}
