//! The engine that sends units elsewhere.

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ulpscope_compare::{CompareError, RankGroup, RankOutcome, RankPair, RankResult, Row};
use ulpscope_dump::{Dump, Error, RankPlace, Select};
use ulpscope_report::SheetFormat;

use super::answer::{ComparedUnit, UnitAnswer, rows};
use super::compare_work::{CompareWork, MergedRanks, Unit};
use super::dispatcher::Dispatcher;
use super::job::{RowTargets, UnitWork};
use super::node_dumps::{DumpNodes, NodeDumps, engine_error};
use super::queue::QueuedUnit;
use super::store::{UnitStore, compare_settings};
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

/// Compares units elsewhere; answers are saved in a folder.
pub struct Elsewhere<'a, S> {
    dumps: NodeDumps<'a>,
    store: Mutex<Option<UnitStore>>,
    rows: RowTargets,
    /// Is removed at the end.
    _temporary: Option<tempfile::TempDir>,
    sink: PhantomData<fn() -> S>,
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
        let mut rows = RowTargets {
            folder: folders.results.map(Path::to_owned),
            timestamp: String::new(),
            formats,
            all_rows: S::ALL_ROWS,
        };
        let settings = compare_settings(request, &rows, nodes.move_limit)?;
        let store = UnitStore::open(answers, settings, resume)?;
        rows.timestamp.clone_from(&store.timestamp);
        let (store, dumps) = (Mutex::new(Some(store)), NodeDumps::new(dispatcher, nodes));
        Ok(Elsewhere { dumps, store, rows, _temporary: temporary, sink: PhantomData })
    }

    /// The time in the names of the sheets.
    pub fn timestamp(&self) -> &str {
        &self.rows.timestamp
    }

    fn queued(&self, request: &Request, pair: &RankPair<'_>, store: &UnitStore) -> QueuedUnit {
        let unit = Unit::of(pair);
        let label = unit.key();
        let sides =
            [("target", Some(pair.target)), ("golden", Some(pair.golden)), ("noise dump", pair.noise)];
        let sides: Vec<(&'static str, &RankPlace)> =
            sides.into_iter().filter_map(|(name, place)| Some((name, place?))).collect();
        let work = CompareWork { request: request.clone(), unit, merged: None, rows: self.rows.clone() };
        self.dumps.unit(label, UnitWork::Compare(Box::new(work)), &sides, store)
    }

    /// A group of ranks is one unit, which a node answers that has all of them.
    fn queued_merged(&self, request: &Request, group: &RankGroup<'_>, store: &UnitStore) -> QueuedUnit {
        let unit = Unit::of(&group.pair);
        let merged = Some(MergedRanks::of(group));
        let work = CompareWork { request: request.clone(), unit, merged, rows: self.rows.clone() };
        let label = work.key();
        let targets = group.targets.iter().map(|place| ("target", *place));
        let sides: Vec<(&'static str, &RankPlace)> = targets.chain([("golden", group.pair.golden)]).collect();
        let mut queued = self.dumps.unit(label, UnitWork::Compare(Box::new(work)), &sides, store);
        if let Some(Ok(nodes)) = &mut queued.nodes {
            let has_all =
                |node: &String| queued.holders.iter().flatten().all(|of_rank| of_rank.contains(node));
            nodes.retain(has_all);
            if nodes.is_empty() {
                queued.nodes = Some(Err(ON_ONE_NODE.to_owned()));
            }
        }
        queued
    }

    /// Has units answered: what became of each, in order.
    fn answered(
        &self,
        queued: impl FnOnce(&UnitStore) -> Vec<QueuedUnit>,
    ) -> Result<Vec<UnitResult<S>>, Error> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let store = store.ok_or_else(|| engine_error("a comparison runs once".to_owned()))?;
        let units = queued(&store);
        let count = units.len();
        // What was answered until it ended is still a result.
        let (queue, ended) = self.dumps.dispatch(units, store);
        let results: Vec<UnitResult<S>> = (0..count)
            .map(|number| {
                result(queue.answer(number).map_err(|why| match &ended {
                    Err(ended) => format!("{why}: {ended}"),
                    Ok(()) => why,
                }))
            })
            .collect();
        match ended {
            Err(why) if results.iter().all(Result::is_err) => Err(engine_error(why)),
            _ => Ok(results),
        }
    }
}

impl<S: AnsweredSink> Engine for Elsewhere<'_, S> {
    type Sink = S;

    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        self.dumps.find(path, select)
    }

    fn answer(&self, work: &Work<'_>) -> Result<Vec<RankResult<S>>, Error> {
        let results = self.answered(|store| {
            work.pairs.iter().map(|pair| self.queued(work.request, pair, store)).collect()
        })?;
        Ok(work.pairs.iter().zip(results).map(|(pair, result)| pair.answered(result)).collect())
    }

    fn unfit_to_merge(&self) -> Option<&'static str> {
        None
    }

    fn answer_merged(
        &self,
        request: &Request,
        groups: &[RankGroup<'_>],
    ) -> Result<Vec<RankResult<S>>, Error> {
        let results = self.answered(|store| {
            groups.iter().map(|group| self.queued_merged(request, group, store)).collect()
        })?;
        Ok(groups.iter().zip(results).map(|(group, result)| group.answered(result)).collect())
    }
}

/// Tensors of merged ranks are read side by side, many of them several times.
const ON_ONE_NODE: &str = "no node has all of its ranks and the golden: ranks that are merged must be on one node, or where every \
                           node sees them";

/// What became of a unit.
type UnitResult<S> = Result<(RankOutcome, S), CompareError>;

fn result<S: AnsweredSink>(answer: Result<(UnitAnswer<ComparedUnit>, Vec<u8>), String>) -> UnitResult<S> {
    let (mut answer, packed) = answer.map_err(CompareError::Elsewhere)?;
    let columns = answer.found.as_mut().map(|found| std::mem::take(&mut found.columns)).unwrap_or_default();
    let (files, failures) = (std::mem::take(&mut answer.files), std::mem::take(&mut answer.failures));
    let sink = S::of_answer(columns, rows(&packed)?, files, failures);
    answer.into_result(sink)
}
