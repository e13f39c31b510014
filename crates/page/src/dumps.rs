//! The dumps of a result, opened rank by rank.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use ulpscope_compare::pair_ranks;
use ulpscope_dump::{Dump, Rank, Select};

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

impl Dumps {
    /// Opens the dumps that a document names; an error says why they are not there.
    pub(crate) fn of_document(document: &Json) -> Result<Dumps, String> {
        let open = |side: &str| {
            let path =
                document[side].as_str().ok_or_else(|| format!("the result does not name its {side}"))?;
            let dump = Dump::open(Path::new(path), &Select::default());
            let dump = dump.map_err(|error| format!("the {side} cannot be read: {error}"))?;
            match document[format!("{side}_data")].as_str().map(PathBuf::from) {
                Some(data) => dump.with_data(&data).map_err(|error| error.to_string()),
                None => Ok(dump),
            }
        };
        Ok(Dumps { target: open("target")?, golden: open("golden")? })
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
        let pair = pair.ok_or("the dumps do not have this step or rank any more")?;
        let open = |place: &ulpscope_dump::RankPlace| {
            place.open().map(NamedRank::of).map_err(|error| error.to_string())
        };
        Ok([open(pair.target)?, open(pair.golden)?])
    }
}
