//! How many parameters and buffers of a run differ between the two sides.
//!
//! Once one weight is known to differ, errors from the others count as inherited: a verdict names only the first few,
//! and a completely different checkpoint would look the same. So every parameter is counted at its first use: later
//! calls of the step may change it. Names are looked up at the end, and only if one differs.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Content, Entry, Rank};

/// A parameter or buffer among the arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct TakenOrigin {
    /// The entry's name in the target.
    pub(crate) entry: String,
    /// Whether it differs by more than is usual for parameters in this run.
    pub(crate) is_other: bool,
}

/// How many differ, of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Those that differ.
    pub differ: u64,
    /// All that were compared.
    pub of: u64,
}

/// Parameters and buffers: how many differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginCounts {
    /// Parameters.
    pub parameters: Share,
    /// Buffers.
    pub buffers: Share,
}

/// All of them so far, with the call in the target that uses them.
#[derive(Debug, Default)]
pub(crate) struct TakenOrigins(Vec<(usize, TakenOrigin)>);

impl TakenOrigins {
    pub(crate) fn extend(&mut self, call: usize, taken: Vec<TakenOrigin>) {
        self.0.extend(taken.into_iter().map(|origin| (call, origin)));
    }

    /// Counts those that differ.
    pub(crate) fn count(&self, target: &Rank) -> OriginCounts {
        let mut first: BTreeMap<String, bool> = BTreeMap::new();
        let mut read: Option<(usize, HashMap<String, String>)> = None;
        for (call, origin) in &self.0 {
            if read.as_ref().is_none_or(|(known, _)| known != call) {
                // Read errors were reported when the call was compared.
                let entries = target.entries(*call).unwrap_or_default();
                read = Some((*call, entries.into_iter().filter_map(source).collect()));
            }
            if let Some(source) = read.as_ref().and_then(|(_, sources)| sources.get(&origin.entry)) {
                first.entry(source.clone()).or_insert(origin.is_other);
            }
        }
        let mut counts = OriginCounts::default();
        for (source, differs) in first {
            let share = match source.split_once(':') {
                Some(("parameter", _)) => &mut counts.parameters,
                Some(("buffer", _)) => &mut counts.buffers,
                _ => continue,
            };
            share.of += 1;
            share.differ += u64::from(differs);
        }
        counts
    }
}

/// The name of an entry, and where it came from.
fn source(entry: Entry) -> Option<(String, String)> {
    match entry.content {
        Content::Tensor(tensor) => Some((entry.name, tensor.source?)),
        _ => None,
    }
}
