//! The dumps of a result, opened rank by rank.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use ulpscope_compare::pair_ranks;
use ulpscope_dump::{Dump, Rank, Select};
use ulpscope_formats::storage;

/// Where the dumps of a result are, if not where it says.
#[derive(Clone, Debug, Default)]
pub struct DumpPlaces {
    /// The target.
    pub target: Option<PathBuf>,
    /// The golden.
    pub golden: Option<PathBuf>,
}

impl DumpPlaces {
    /// Whether any place was named.
    pub fn is_named(&self) -> bool {
        self.target.is_some() || self.golden.is_some()
    }
}

/// The two dumps that a result compared.
#[derive(Debug)]
pub(crate) struct Dumps {
    target: Dump,
    golden: Dump,
}

/// A rank, and its calls by name.
#[derive(Debug)]
pub(crate) struct NamedRank {
    pub(crate) rank: Rank,
    by_name: HashMap<String, usize>,
}

impl NamedRank {
    pub(crate) fn of(rank: Rank) -> NamedRank {
        let by_name = (0..rank.calls().len()).map(|call| (rank.name(call), call)).collect();
        NamedRank { rank, by_name }
    }

    /// The number of a call.
    pub(crate) fn call(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }
}

/// A path that a document names. One that is not absolute starts at the folder in which the comparison ran.
fn named(document: &Json, field: &str) -> Option<PathBuf> {
    let path = Path::new(document[field].as_str()?);
    Some(match document["directory"].as_str() {
        Some(directory) => Path::new(directory).join(path),
        None => path.to_owned(),
    })
}

impl Dumps {
    /// Opens the dumps that a document names; an error says why they are not there, and what to do.
    pub(crate) fn of_document(document: &Json, places: &DumpPlaces) -> Result<Dumps, String> {
        let open = |side: &str, place: &Option<PathBuf>| {
            let path = place.clone().or_else(|| named(document, side));
            let path = path.ok_or_else(|| format!("the result does not name its {side}"))?;
            let dump = Dump::open(&path, &Select::default());
            let dump = dump.map_err(|error| {
                format!("the {side} cannot be read: {error}; if it was moved, say where it is with --{side}")
            })?;
            match named(document, &format!("{side}_data")) {
                Some(data) => dump.with_data(&data).map_err(|error| error.to_string()),
                None => Ok(dump),
            }
        };
        Ok(Dumps { target: open("target", &places.target)?, golden: open("golden", &places.golden)? })
    }

    /// Which of them is not there any more, and what to do.
    pub(crate) fn moved(&self) -> Option<String> {
        let sides = [("target", &self.target), ("golden", &self.golden)];
        let (side, dump) = sides.into_iter().find(|(_, dump)| !storage::exists(&dump.path))?;
        Some(format!(
            "the {side} is not at {} any more; put it back there, or end `ulpscope view` and start it again with --{side} DIR",
            dump.path.display()
        ))
    }

    /// Opens the ranks of a pair, as the document names it.
    pub(crate) fn ranks(&self, of_rank: &Json) -> Result<[NamedRank; 2], String> {
        let pairs = pair_ranks(&self.target, &self.golden).pairs;
        let name = |side: &str| of_rank[side].as_str().unwrap_or_default();
        let pair = pairs.iter().find(|pair| {
            pair.step == of_rank["step"].as_u64()
                && pair.target.name == name("target")
                && pair.golden.name == name("golden")
        });
        let pair = pair.ok_or("the dumps do not have this step or rank any more; compare them again")?;
        let open = |place: &ulpscope_dump::RankPlace| {
            place.open().map(NamedRank::of).map_err(|error| error.to_string())
        };
        Ok([open(pair.target)?, open(pair.golden)?])
    }
}
