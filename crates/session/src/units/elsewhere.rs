//! The engine that sends units elsewhere.

use std::collections::HashMap;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_compare::{CompareError, PairOptions, RankGroup, RankOutcome, RankResult, Row};
use ulpscope_dump::{Dump, Error, Inputs, Problems, RankPlace, Select};
use ulpscope_formats::Fault;
use ulpscope_report::SheetFormat;

use super::answer::{UnitAnswer, rows};
use super::dispatcher::{Dispatcher, NodeListing};
use super::gathered::MOVE_LIMIT;
use super::job::{RowTargets, Unit};
use super::listing::FoundDump;
use super::located::Located;
use super::queue::{QueuedUnit, UnitQueue};
use super::store::{Settings, UnitStore};
use crate::Request;
use crate::engine::{Engine, Work};
use crate::files::FileSink;
use crate::memory::MemorySink;

/// Has the rows of an answered unit.
pub trait AnsweredSink: Sized {
    /// Whether it has every row, and not only the first that differ.
    const ALL_ROWS: bool;

    /// From an answer.
    fn of_answer(columns: Vec<String>, rows: Vec<Row>, files: Vec<PathBuf>, failures: Vec<String>) -> Self;
}

impl AnsweredSink for FileSink {
    const ALL_ROWS: bool = false;

    fn of_answer(
        columns: Vec<String>,
        rows: Vec<Row>,
        files: Vec<PathBuf>,
        failures: Vec<String>,
    ) -> FileSink {
        FileSink::written(columns, rows, files, failures)
    }
}

impl AnsweredSink for MemorySink {
    const ALL_ROWS: bool = true;

    fn of_answer(columns: Vec<String>, rows: Vec<Row>, _: Vec<PathBuf>, _: Vec<String>) -> MemorySink {
        MemorySink { columns, rows }
    }
}

/// Where results go.
#[derive(Clone, Copy, Debug)]
pub struct ResultFolders<'a> {
    /// Sheets are written there, and answers into a folder `units` in it; `None`: answers are kept until the end of the
    /// comparison.
    pub results: Option<&'a Path>,
    /// The formats of the sheets.
    pub formats: &'a [SheetFormat],
}

/// Where the dumps are, and how much of them may be moved.
#[derive(Clone, Debug)]
pub struct DumpNodes {
    /// Which node has what.
    pub located: Located,
    /// How many bytes of tensors may be moved between nodes for each rank.
    pub move_limit: u64,
}

impl Default for DumpNodes {
    fn default() -> DumpNodes {
        DumpNodes { located: Located::default(), move_limit: MOVE_LIMIT }
    }
}

impl From<Located> for DumpNodes {
    fn from(located: Located) -> DumpNodes {
        DumpNodes { located, ..DumpNodes::default() }
    }
}

/// Compares units elsewhere; answers are saved in a folder.
pub struct Elsewhere<'a, S> {
    dispatcher: &'a dyn Dispatcher,
    located: Located,
    move_limit: u64,
    store: Mutex<Option<UnitStore>>,
    rows: RowTargets,
    /// By what is opened: the nodes that have it, and its files.
    held: Mutex<HashMap<PathBuf, Held>>,
    /// Is removed at the end.
    _temporary: Option<tempfile::TempDir>,
    sink: PhantomData<fn() -> S>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    /// `None`: every node.
    nodes: Option<Vec<String>>,
    inputs: Inputs,
}

impl<'a, S: AnsweredSink> Elsewhere<'a, S> {
    /// With `resume`, answers of an earlier start are used.
    pub fn new(
        dispatcher: &'a dyn Dispatcher,
        request: &Request,
        nodes: DumpNodes,
        folders: ResultFolders<'_>,
        resume: bool,
    ) -> io::Result<Elsewhere<'a, S>> {
        let formats: Vec<String> = folders.formats.iter().map(|format| format.name().to_owned()).collect();
        let temporary = folders.results.is_none().then(tempfile::tempdir).transpose()?;
        let answers = folders.results.or(temporary.as_ref().map(|folder| folder.path()));
        let answers = answers.unwrap_or(Path::new("."));
        let DumpNodes { located, move_limit } = nodes;
        let settings = Settings::of(request, &formats, S::ALL_ROWS, move_limit)?;
        let store = UnitStore::open(answers, settings, resume)?;
        let (timestamp, folder) = (store.timestamp.clone(), folders.results.map(Path::to_owned));
        let rows = RowTargets { folder, timestamp, formats, all_rows: S::ALL_ROWS };
        let (store, held) = (Mutex::new(Some(store)), Mutex::default());
        Ok(Elsewhere { dispatcher, located, move_limit, store, rows, held, _temporary: temporary, sink: PhantomData })
    }

    /// The time in the names of the sheets.
    pub fn timestamp(&self) -> &str {
        &self.rows.timestamp
    }

    fn held(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self, place: &RankPlace, nodes: Option<Vec<String>>, inputs: Inputs) {
        self.held().insert(place.path().to_owned(), Held { nodes, inputs });
    }

    /// One dump from what the nodes have of it.
    fn join(&self, path: &Path, select: &Select, listings: Vec<NodeListing>) -> Result<Dump, Error> {
        let (mut nodes, mut parts, mut problems) = (Vec::new(), Vec::new(), Problems::default());
        let mut inputs = HashMap::new();
        for NodeListing { node, found } in listings {
            match found.and_then(|text| text.as_deref().map(FoundDump::parse).transpose()) {
                Ok(None) => {}
                Ok(Some(FoundDump { dump, inputs: of_dump })) => {
                    let places = dump.steps.iter().flat_map(|step| &step.ranks);
                    for (place, found) in places.zip(of_dump) {
                        inputs.entry(place.path().to_owned()).or_insert(found);
                    }
                    nodes.push(node);
                    parts.push(dump);
                }
                Err(why) => {
                    problems.note(format!("node {node} could not be asked for {}: {why}", path.display()));
                }
            }
        }
        if parts.is_empty() {
            let why = match problems.is_empty() {
                true => "none of the nodes has this path".to_owned(),
                false => problems.listed().join("; "),
            };
            return Err(Error::whole(Fault::Unsupported(why)).in_file(path));
        }
        let (mut dump, holders) = Dump::joined(path, parts, select)?;
        let holders: HashMap<PathBuf, Vec<usize>> =
            holders.into_iter().map(|one| (one.path, one.machines)).collect();
        for step in &dump.steps {
            for place in &step.ranks {
                let machines = holders.get(place.path()).into_iter().flatten();
                let is_named = |node: &&String| match &self.located {
                    Located::Map(map) => map.names(step.number, &place.name, node),
                    Located::Ask | Located::Shared => true,
                };
                let of_place: Vec<String> =
                    machines.map(|at| &nodes[*at]).filter(is_named).cloned().collect();
                self.hold(place, Some(of_place), inputs.remove(place.path()).unwrap_or_default());
            }
        }
        dump.problems.extend(problems);
        Ok(dump)
    }

    fn queue(&self, work: &Work<'_>, store: UnitStore) -> UnitQueue {
        let held = self.held();
        let units = work.pairs.iter().map(|pair| {
            let unit = Unit::of(pair);
            let label = unit.key();
            let sides = [Some(pair.target), Some(pair.golden), pair.noise].into_iter().flatten();
            let known = |place: &RankPlace| held.get(place.path()).cloned().unwrap_or_default();
            let sides: Vec<Held> = sides.map(known).collect();
            let inputs: Vec<Inputs> = sides.iter().map(|one| one.inputs.clone()).collect();
            let is_done = store.usable(&label, &inputs);
            let nodes = possible_nodes(&sides);
            let holders = sides.into_iter().map(|one| one.nodes).collect();
            QueuedUnit { unit, inputs, holders, label, nodes, is_done }
        });
        let units = units.collect();
        UnitQueue::new(work.request, self.rows.clone(), self.move_limit, units, store)
    }
}

/// The nodes that can answer a unit, or why there is none; `None`: every node. Those that have all sides are best; else those
/// that have the target, where the others are moved to.
fn possible_nodes(sides: &[Held]) -> Option<Result<Vec<String>, String>> {
    let names = ["target", "golden", "noise dump"];
    let mut sides = names.iter().zip(sides);
    let nowhere = sides.clone().find(|(_, held)| held.nodes.as_ref().is_some_and(Vec::is_empty));
    if let Some((side, held)) = nowhere {
        return Some(Err(format!("no node that may be asked has the {side}: {}", held.inputs.path.display())));
    }
    let limited: Vec<&Vec<String>> = sides.clone().filter_map(|(_, held)| held.nodes.as_ref()).collect();
    let (first, others) = limited.split_first()?;
    let has_all = |node: &&String| others.iter().all(|nodes| nodes.contains(node));
    let common: Vec<String> = first.iter().filter(has_all).cloned().collect();
    if !common.is_empty() {
        return Some(Ok(common));
    }
    // Whoever has the first of the sides that not everyone has.
    sides.find_map(|(_, held)| held.nodes.clone()).map(Ok)
}

impl<S: AnsweredSink> Engine for Elsewhere<'_, S> {
    type Sink = S;

    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        let asked = match &self.located {
            Located::Shared => {
                let dump = Dump::open(path, select)?;
                let places = dump.steps.iter().flat_map(|step| &step.ranks);
                places.for_each(|place| self.hold(place, None, place.inputs()));
                return Ok(dump);
            }
            Located::Ask => self.dispatcher.find(path, None),
            Located::Map(map) => self.dispatcher.find(path, Some(&map.nodes())),
        };
        self.join(path, select, asked.map_err(engine_error)?)
    }

    fn answer(&self, work: &Work<'_>) -> Result<Vec<RankResult<S>>, Error> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let store = store.ok_or_else(|| engine_error("a comparison runs once".to_owned()))?;
        let queue = Arc::new(self.queue(work, store));
        for (number, unit) in queue.units().iter().enumerate() {
            if let (false, Some(Err(why))) = (unit.is_done, &unit.nodes) {
                queue.fail(number, why.clone());
            }
        }
        // What was answered until then is still a result.
        let ended = self.dispatcher.dispatch(&queue);
        let results: Vec<RankResult<S>> = work
            .pairs
            .iter()
            .enumerate()
            .map(|(number, pair)| {
                let answer = queue.answer(number).map_err(|why| match &ended {
                    Err(ended) => format!("{why}: {ended}"),
                    Ok(()) => why,
                });
                pair.answered(result(answer))
            })
            .collect();
        match ended {
            Err(why) if results.iter().all(|one| one.result.is_err()) => Err(engine_error(why)),
            _ => Ok(results),
        }
    }

    fn unfit_to_merge(&self) -> Option<&'static str> {
        Some(NOT_MERGED)
    }

    fn answer_merged(
        &self,
        _options: &PairOptions,
        _groups: &[RankGroup<'_>],
    ) -> Result<Vec<RankResult<S>>, Error> {
        Err(engine_error(format!("ranks are merged in one process; leave out {NOT_MERGED}")))
    }
}

/// A unit is a pair of ranks, and merged ranks are several.
const NOT_MERGED: &str = "--engine ray";

fn result<S: AnsweredSink>(
    answer: Result<(UnitAnswer, Vec<u8>), String>,
) -> Result<(RankOutcome, S), CompareError> {
    let (mut answer, packed) = answer.map_err(CompareError::Elsewhere)?;
    let columns = std::mem::take(&mut answer.columns);
    let (files, failures) = (std::mem::take(&mut answer.files), std::mem::take(&mut answer.failures));
    let sink = S::of_answer(columns, rows(&packed)?, files, failures);
    answer.into_result(sink)
}

fn engine_error(why: String) -> Error {
    Error::whole(io::Error::other(why))
}
