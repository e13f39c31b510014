//! Dumps whose ranks are on several nodes: found as one, and which node has what.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_dump::{Dump, Error, Inputs, Problems, RankPlace, Select};
use ulpscope_formats::Fault;

use super::dispatcher::{Dispatcher, NodeListing};
use super::gathered::MOVE_LIMIT;
use super::job::UnitWork;
use super::listing::FoundDump;
use super::located::Located;
use super::queue::{QueuedUnit, UnitQueue};
use super::store::UnitStore;

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

/// Finds dumps on nodes, and remembers which node has what.
pub(super) struct NodeDumps<'a> {
    dispatcher: &'a dyn Dispatcher,
    nodes: DumpNodes,
    /// By what is opened: the nodes that have it, and its files.
    held: Mutex<HashMap<PathBuf, Held>>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    /// `None`: every node.
    nodes: Option<Vec<String>>,
    inputs: Inputs,
}

impl<'a> NodeDumps<'a> {
    pub(super) fn new(dispatcher: &'a dyn Dispatcher, nodes: DumpNodes) -> NodeDumps<'a> {
        NodeDumps { dispatcher, nodes, held: Mutex::default() }
    }

    /// Finds the steps and ranks of a dump.
    pub(super) fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        let asked = match &self.nodes.located {
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

    /// The files of a rank, and the nodes that can answer for it.
    pub(super) fn of_rank(&self, place: &RankPlace) -> (Inputs, Option<Result<Vec<String>, String>>) {
        let held = self.held().get(place.path()).cloned().unwrap_or_default();
        let inputs = held.inputs.clone();
        (inputs, possible_nodes(&[("rank", held)]))
    }

    /// A unit that reads these ranks, with their names for messages.
    pub(super) fn unit(
        &self,
        label: String,
        work: UnitWork,
        places: &[(&'static str, &RankPlace)],
        store: &UnitStore,
    ) -> QueuedUnit {
        let held = self.held();
        let known = |(name, place): &(&'static str, &RankPlace)| {
            (*name, held.get(place.path()).cloned().unwrap_or_default())
        };
        let sides: Vec<(&str, Held)> = places.iter().map(known).collect();
        let inputs: Vec<Inputs> = sides.iter().map(|(_, one)| one.inputs.clone()).collect();
        let is_done = store.usable(&label, &inputs);
        let nodes = possible_nodes(&sides);
        let holders = sides.into_iter().map(|(_, one)| one.nodes).collect();
        QueuedUnit { work, inputs, holders, label, nodes, is_done }
    }

    /// Has units answered. Returns the queue with the answers, and why not all could be had, if so.
    pub(super) fn dispatch(
        &self,
        units: Vec<QueuedUnit>,
        store: UnitStore,
    ) -> (Arc<UnitQueue>, Result<(), String>) {
        let queue = Arc::new(UnitQueue::new(self.nodes.move_limit, units, store));
        queue.fail_impossible();
        let ended = self.dispatcher.dispatch(&queue);
        (queue, ended)
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
                let is_named = |node: &&String| match &self.nodes.located {
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
}

/// The nodes that can answer a unit, or why there is none; `None`: every node. Those that have all sides are best; else those
/// that have the target, where the others are moved to.
fn possible_nodes(sides: &[(&str, Held)]) -> Option<Result<Vec<String>, String>> {
    let mut sides = sides.iter();
    let nowhere = sides.clone().find(|(_, held)| held.nodes.as_ref().is_some_and(Vec::is_empty));
    if let Some((side, held)) = nowhere {
        return Some(Err(format!(
            "no node that may be asked has the {side}: {}",
            held.inputs.path.display()
        )));
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

pub(super) fn engine_error(why: String) -> Error {
    Error::whole(io::Error::other(why))
}
