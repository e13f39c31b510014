//! Which node has which rank: a map that the user names, or that the nodes are asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::{Access, Bytes, Error, Fault};

/// Changes with every incompatible change of the map.
const SCHEMA: &str = "ulpscope.located/1";

/// Where the dumps are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Located {
    /// Every node sees what this machine sees.
    #[default]
    Shared,
    /// Every node has ranks of its own: all are asked.
    Ask,
    /// As a map says: the nodes in it are asked.
    Map(LocatedMap),
}

impl Located {
    /// From what a user says: `auto`, or the path of a map.
    pub fn parse(word: &Path) -> Result<Located, Error> {
        if word == Path::new("auto") { Ok(Located::Ask) } else { LocatedMap::read(word).map(Located::Map) }
    }
}

/// A rank of a dump, and the nodes that have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedRank {
    /// The number of the step; missing: every step.
    #[serde(default)]
    pub step: Option<u64>,
    /// The name of the rank's folder.
    pub rank: String,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The size of its files, if known.
    #[serde(default)]
    pub bytes: u64,
}

/// The content of a map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedMap {
    schema: String,
    /// The dump that was looked for, if one was.
    #[serde(default)]
    dump: Option<PathBuf>,
    /// In order of steps, then ranks.
    pub ranks: Vec<LocatedRank>,
}

/// A map of a million ranks has fewer bytes.
const MAX_BYTES: u64 = 256 << 20;

impl LocatedMap {
    /// The map of a dump.
    pub fn new(dump: &Path, ranks: Vec<LocatedRank>) -> LocatedMap {
        LocatedMap { schema: SCHEMA.to_owned(), dump: Some(dump.to_owned()), ranks }
    }

    /// Reads a map.
    pub fn read(path: &Path) -> Result<LocatedMap, Error> {
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        let wrong = |found: String| {
            let expected = format!("a map that `ulpscope locate` writes ({SCHEMA})");
            Error::whole(Fault::malformed(expected, found)).in_file(path)
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(wrong(format!("{} bytes", bytes.len())));
        }
        let map: LocatedMap = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if map.schema == SCHEMA { Ok(map) } else { Err(wrong(map.schema)) }
    }

    /// Every node, once.
    pub fn nodes(&self) -> Vec<String> {
        let nodes: BTreeSet<&String> = self.ranks.iter().flat_map(|rank| &rank.nodes).collect();
        nodes.into_iter().cloned().collect()
    }

    /// Whether a node is named for a rank.
    pub(crate) fn names(&self, step: Option<u64>, rank: &str, node: &str) -> bool {
        let is_rank = |one: &&LocatedRank| one.rank == rank && (one.step.is_none() || one.step == step);
        self.ranks.iter().filter(is_rank).any(|one| one.nodes.iter().any(|name| name == node))
    }
}
