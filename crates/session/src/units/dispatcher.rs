//! What sends jobs elsewhere, and what it is asked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::listing::FoundDump;
use super::located::{LocatedMap, LocatedRank};
use super::queue::UnitQueue;

/// How to reach an engine, and how to use it.
#[derive(Clone, Debug, Default)]
pub struct EngineSettings {
    /// Where it is; `None`: its own default.
    pub address: Option<String>,
    /// Cores for each unit; `None`: as many as there are for the units.
    pub cores: Option<u32>,
    /// The folder of results, if one was named.
    pub results: Option<PathBuf>,
}

/// Sends jobs to other processes and machines, and returns what they answer. It does not look into either.
pub trait Dispatcher: Sync {
    /// What nodes have of a dump; `None`: asks all of them.
    fn find(&self, path: &Path, nodes: Option<&[String]>) -> Result<Vec<NodeListing>, String>;

    /// Has the units answered that are not done yet. Every unit is delivered or given up when this returns; an error
    /// means that no further unit can be answered.
    fn dispatch(&self, queue: &Arc<UnitQueue>) -> Result<(), String>;
}

/// What a node has of a dump.
#[derive(Debug)]
pub struct NodeListing {
    /// The name of the node.
    pub node: String,
    /// The text of [`super::find`], `None` if it has nothing; or why it could not be asked.
    pub found: Result<Option<String>, String>,
}

/// Asks every node for a dump: the map of its ranks, and what could not be asked.
pub fn locate(dispatcher: &dyn Dispatcher, path: &Path) -> Result<(LocatedMap, Vec<String>), String> {
    let mut problems = Vec::new();
    // In order of steps, then ranks; those without a number come last.
    let mut ranks = BTreeMap::new();
    for NodeListing { node, found } in dispatcher.find(path, None)? {
        let found = match found.and_then(|text| text.as_deref().map(FoundDump::parse).transpose()) {
            Ok(None) => continue,
            Ok(Some(found)) => found,
            Err(why) => {
                problems.push(format!("{node}: {why}"));
                continue;
            }
        };
        let places =
            found.dump.steps.iter().flat_map(|step| step.ranks.iter().map(|place| (step.number, place)));
        for ((step, place), inputs) in places.zip(&found.inputs) {
            let key = (step.is_none(), step, place.number.is_none(), place.number, place.name.clone());
            let (rank, bytes) = (place.name.clone(), inputs.bytes);
            let known =
                ranks.entry(key).or_insert_with(|| LocatedRank { step, rank, nodes: Vec::new(), bytes });
            known.nodes.push(node.clone());
        }
    }
    Ok((LocatedMap::new(path, ranks.into_values().collect()), problems))
}
