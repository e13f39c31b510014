//! Details of one call: its arguments and results on both sides, how their values and errors are distributed, and the
//! elements that differ most.

mod elements;
mod side;

use serde_json::{Value as Json, json};
use ulpscope_compare::{EntryUnit, Mapping, pair_entries};
use ulpscope_dump::{Content, Entry, Rank};
use ulpscope_formats::Tensor;
use ulpscope_report::escape;

use crate::calls::hashed;
use crate::flow::position;

/// Entries of a call that are shown.
const MAX_ENTRIES: usize = 256;

/// A call in the dumps, of which either may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlace<'a> {
    /// The target's rank and call, then the golden's.
    pub(crate) sides: [Option<(&'a Rank, usize)>; 2],
    /// Its first row, and how many it has.
    pub(crate) rows: (u64, u64),
    /// Hashes of the names of entries, row by row; empty if rows are in the order of entries.
    pub(crate) entries: &'a [u64],
}

/// Details, and how many elements were read for them.
#[derive(Debug)]
pub(crate) struct Detail {
    pub(crate) document: Json,
    pub(crate) elements: u64,
}

/// The details of a call.
pub(crate) fn detail(place: CallPlace<'_>) -> Detail {
    let mut problems = Vec::new();
    let mut read = |side: Option<(&Rank, usize)>| {
        let (rank, call) = side?;
        rank.entries(call).map_err(|error| problems.push(said(&error.to_string()))).ok()
    };
    let (target, golden) = (read(place.sides[0]), read(place.sides[1]));
    let (none, mapping) = (Vec::new(), Mapping::default());
    let (target, golden) = (target.as_ref().unwrap_or(&none), golden.as_ref().unwrap_or(&none));
    let mut elements = 0;
    let mut documents = Vec::new();
    let (first, rows) = place.rows;
    for (number, unit) in pair_entries(target, golden, &mapping).into_iter().take(MAX_ENTRIES).enumerate() {
        let sides: [Option<&Entry>; 2] = match unit {
            EntryUnit::Pair(pair) => [Some(pair.target), Some(pair.golden)],
            EntryUnit::TargetOnly { entry, .. } => [Some(entry), None],
            EntryUnit::GoldenOnly { entry, .. } => [None, Some(entry)],
        };
        let mut tensor = |side: usize| -> Option<Tensor> {
            let ((rank, _), entry) = place.sides[side].zip(sides[side])?;
            let Content::Tensor(tensor) = &entry.content else { return None };
            rank.tensor(tensor).map_err(|error| problems.push(said(&error.to_string()))).ok().flatten()
        };
        let tensors = [tensor(0), tensor(1)];
        let read = elements::Read::of(&tensors);
        elements += read.looked_at;
        let described =
            [0, 1].map(|at| sides[at].map(|entry| side::document(entry, read.stats[at].as_ref())));
        let [target, golden] = described;
        let named = [0, 1].map(|at| sides[at].map(|entry| hashed(&entry.name)));
        let row = match place.entries {
            [] => Some(number as u64).filter(|number| *number < rows),
            names => names.iter().position(|name| named.contains(&Some(*name))).map(|row| row as u64),
        };
        documents.push(json!({
            "entry": sides[0].or(sides[1]).map(|entry| said(&position(entry))),
            "row": row.map(|row| first + row),
            "target": target,
            "golden": golden,
            "histogram": read.histogram,
            "magnitudes": read.magnitudes,
            "errors": read.errors,
            "worst": read.worst,
            "sampled": read.sampled,
        }));
        for tensor in tensors.iter().flatten() {
            if let Err(error) = tensor.check() {
                problems.push(said(&error.to_string()));
            }
        }
    }
    problems.dedup();
    Detail { document: json!({ "entries": documents, "problems": problems }), elements }
}

/// Text of a dump, without characters that act.
fn said(text: &str) -> String {
    escape::terminal(text).into_owned()
}
