//! From what the user named to steps and ranks.

use std::path::{Path, PathBuf};

use ulpscope_formats::{Error, Fault};

use crate::msprobe;
use crate::problems::Problems;
use crate::rank::Rank;

/// Which steps and ranks to look at; all, where empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Numbers of steps.
    pub steps: Vec<u64>,
    /// Numbers of ranks.
    pub ranks: Vec<u64>,
}

/// A dump: what the user named, as steps and ranks. Nothing but folders has been read yet.
#[derive(Debug)]
pub struct Dump {
    /// What the user named.
    pub path: PathBuf,
    /// In order of their numbers; a single one without a number where there are no step folders.
    pub steps: Vec<Step>,
    /// Folders that could not be looked into.
    pub problems: Problems,
}

/// One step.
#[derive(Debug)]
pub struct Step {
    /// Its number, where its folder has one.
    pub number: Option<u64>,
    /// In order of their numbers.
    pub ranks: Vec<RankPlace>,
}

/// A rank, not opened yet.
#[derive(Clone, Debug)]
pub struct RankPlace {
    /// Its number, where its folder has one; a process id is none.
    pub number: Option<u64>,
    /// The name of its folder, `rank0`, `proc1000`; empty where there is none.
    pub name: String,
    /// What to open.
    path: PathBuf,
}

impl Dump {
    /// Finds the steps and ranks in a folder or file.
    pub fn open(path: &Path, select: &Select) -> Result<Dump, Error> {
        let _ = select;
        let json = if path.is_dir() { path.join("dump.json") } else { path.to_owned() };
        if !json.is_file() {
            return Err(Error::whole(Fault::malformed("a dump", "nothing of the kind")).in_file(path));
        }
        let rank = RankPlace { number: None, name: String::new(), path: json };
        let steps = vec![Step { number: None, ranks: vec![rank] }];
        Ok(Dump { path: path.to_owned(), steps, problems: Problems::default() })
    }
}

impl RankPlace {
    /// Reads the index of the rank.
    pub fn open(&self) -> Result<Rank, Error> {
        msprobe::open(&self.path)
    }
}
