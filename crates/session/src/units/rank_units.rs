//! The ranks of a dump as units, for work that is not done here.

use std::path::Path;

use ulpscope_dump::{Error, Inputs, Problems, RankPlace, Select};

use super::dispatcher::Dispatcher;
use super::job::step_word;
use super::located::Located;
use super::node_dumps::NodeDumps;

/// One rank of one step, and where it can be read.
#[derive(Clone, Debug)]
pub struct RankUnit {
    /// Its name.
    pub label: String,
    /// The number of the step.
    pub step: Option<u64>,
    /// The rank.
    pub place: RankPlace,
    /// Its files.
    pub inputs: Inputs,
    /// The nodes that have it, or why there is none; `None`: every node.
    pub nodes: Option<Result<Vec<String>, String>>,
}

/// The ranks of a dump, in order of steps, then ranks, and what could not be searched.
pub fn rank_units(
    dispatcher: &dyn Dispatcher,
    path: &Path,
    select: &Select,
    located: Located,
) -> Result<(Vec<RankUnit>, Problems), Error> {
    let dumps = NodeDumps::new(dispatcher, located.into());
    let dump = dumps.find(path, select)?;
    let mut units = Vec::new();
    for step in &dump.steps {
        for place in &step.ranks {
            let (inputs, nodes) = dumps.of_rank(place);
            let label = rank_label(step.number, step.is_after_last, place);
            units.push(RankUnit { label, step: step.number, place: place.clone(), inputs, nodes });
        }
    }
    Ok((units, dump.problems))
}

/// The name of a rank of a step: for people, and for the file of its answer.
pub(super) fn rank_label(step: Option<u64>, is_after_last: bool, place: &RankPlace) -> String {
    let name = if place.name.is_empty() { "rank" } else { &place.name };
    format!("{}_{name}", step_word(step, is_after_last))
}
