//! Finds the steps and ranks in the path that the user named.

use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use ulpscope_formats::storage::{self, Kind};
use ulpscope_formats::{Error, Fault, natural};

use crate::find::{self, Found, Opening};
use crate::problems::Problems;
use crate::rank::Rank;
use crate::{acl, async_npy, files, joined, journal, msprobe, pkl, tensorflow};

/// Which steps and ranks to read; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Select {
    /// Numbers of steps.
    pub steps: Vec<u64>,
    /// Numbers of ranks.
    pub ranks: Vec<u64>,
}

/// A dump: the path that the user named, as steps and ranks. Only folders have been read.
#[derive(Debug, Serialize, Deserialize)]
pub struct Dump {
    /// What the user named.
    pub path: PathBuf,
    /// In order of their numbers; then what followed the last step, which has no number. Without step folders, a
    /// single one without a number.
    pub steps: Vec<Step>,
    /// Folders that could not be searched.
    pub problems: Problems,
    /// Empty folders of steps and ranks: the run ended before it recorded anything there.
    pub notes: Vec<String>,
}

/// One step.
#[derive(Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its number, if its folder has one.
    pub number: Option<u64>,
    /// Whether it is what the run did after its last step, and not a dump without step folders.
    pub is_after_last: bool,
    /// In order of their numbers; those without a number are last.
    pub ranks: Vec<RankPlace>,
}

/// A rank, not opened yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankPlace {
    /// Its number, if its folder has one; a process id does not count.
    pub number: Option<u64>,
    /// The name of its folder, `rank0`, `proc1000`; empty if there is none.
    pub name: String,
    pub(crate) opening: Opening,
    /// The folder of its tensors, if the user named one.
    pub(crate) data: Option<PathBuf>,
}

impl Dump {
    /// Finds the steps and ranks in a folder or file: those of Ulpscope, msprobe, ptdbg_ascend or torch_npu.hooks,
    /// or else tensor files. If a requested step or rank is missing, the error lists those that exist.
    pub fn open(path: &Path, select: &Select) -> Result<Dump, Error> {
        let mut problems = Problems::default();
        let mut notes = Vec::new();
        let mut found = find::find(path, &mut problems, &mut notes)?;
        found.sort_by(order);
        if let Some(twice) = found.windows(2).find(|pair| order(&pair[0], &pair[1]).is_eq()) {
            let shown = |found: &Found| {
                let place = found.opening.path();
                place.strip_prefix(path).unwrap_or(place).display().to_string()
            };
            let same: Vec<String> =
                found.iter().filter(|one| order(one, &twice[0]).is_eq()).map(shown).collect();
            return Err(find::several(path, &same));
        }
        let numbers: Vec<_> = found.iter().map(|found| (found.step, found.rank.number)).collect();
        select.check(path, &numbers)?;
        let has_numbers = found.iter().any(|found| found.step.is_some());
        let mut steps: Vec<Step> = Vec::new();
        for Found { step, rank, opening } in found {
            if !select.wants((step, rank.number)) {
                continue;
            }
            let place = RankPlace { number: rank.number, name: rank.text, opening, data: None };
            match steps.last_mut() {
                Some(last) if last.number == step => last.ranks.push(place),
                _ => steps.push(Step {
                    number: step,
                    is_after_last: step.is_none() && has_numbers,
                    ranks: vec![place],
                }),
            }
        }
        Ok(Dump { path: path.to_owned(), steps, problems, notes })
    }

    /// One dump from what several machines have of it, each under the same path. Returns it with the places of each
    /// rank's machines in the list. What two machines have is taken from the first.
    pub fn joined(path: &Path, parts: Vec<Dump>, select: &Select) -> Result<(Dump, Vec<Holders>), Error> {
        let mut found: Vec<(Option<u64>, RankPlace, Vec<usize>)> = Vec::new();
        let mut known: HashMap<(Option<u64>, String), usize> = HashMap::new();
        let mut joined = Dump {
            path: path.to_owned(),
            steps: Vec::new(),
            problems: Problems::default(),
            notes: Vec::new(),
        };
        for (machine, part) in parts.into_iter().enumerate() {
            joined.problems.extend(part.problems);
            joined.notes.extend(part.notes);
            for step in part.steps {
                for place in step.ranks {
                    match known.entry((step.number, place.name.clone())) {
                        Occupied(at) => found[*at.get()].2.push(machine),
                        Vacant(free) => {
                            free.insert(found.len());
                            found.push((step.number, place, vec![machine]));
                        }
                    }
                }
            }
        }
        let numbers: Vec<Numbers> = found.iter().map(|(step, place, _)| (*step, place.number)).collect();
        select.check(path, &numbers)?;
        let last = |number: Option<u64>| (number.is_none(), number);
        found.sort_by(|a, b| {
            let key = |one: &(Option<u64>, RankPlace, Vec<usize>)| (last(one.0), last(one.1.number));
            key(a).cmp(&key(b)).then_with(|| natural::compare(a.1.name.as_bytes(), b.1.name.as_bytes()))
        });
        let has_numbers = found.iter().any(|(step, ..)| step.is_some());
        let mut holders = Vec::new();
        for (number, place, machines) in found {
            if !select.wants((number, place.number)) {
                continue;
            }
            holders.push(Holders { path: place.path().to_owned(), machines });
            match joined.steps.last_mut() {
                Some(last) if last.number == number => last.ranks.push(place),
                _ => joined.steps.push(Step {
                    number,
                    is_after_last: number.is_none() && has_numbers,
                    ranks: vec![place],
                }),
            }
        }
        Ok((joined, holders))
    }

    /// Whether every rank is one of an Ascend device's operators.
    pub fn is_acl(&self) -> bool {
        let mut ranks = self.steps.iter().flat_map(|step| &step.ranks);
        ranks.all(|place| matches!(place.opening, Opening::Acl(..)))
    }

    /// Whether every rank is what TensorFlow dumped.
    pub fn is_tensorflow(&self) -> bool {
        let mut ranks = self.steps.iter().flat_map(|step| &step.ranks);
        ranks.all(|place| matches!(place.opening, Opening::Tensorflow(..)))
    }

    /// The same dump with its tensors in a folder that the user named, and not in the one beside the records. Only for
    /// the records of one rank: `dump.json`, or the `.pkl` of ptdbg_ascend.
    pub fn with_data(mut self, folder: &Path) -> Result<Dump, Error> {
        let about = storage::about(folder).map_err(|error| Error::whole(error).in_file(folder))?;
        if about.kind != Kind::Folder {
            return Err(Error::whole(Fault::malformed("a folder of tensors", "a file")).in_file(folder));
        }
        let ranks: usize = self.steps.iter().map(|step| step.ranks.len()).sum();
        let place = self.steps.iter_mut().flat_map(|step| &mut step.ranks).next();
        let Some(place) = place.filter(|_| ranks == 1) else {
            let expected = "one rank, as a folder of tensors was named for it";
            return Err(
                Error::whole(Fault::malformed(expected, format!("{ranks} ranks"))).in_file(&self.path)
            );
        };
        if !matches!(&place.opening, Opening::Msprobe(files) | Opening::Pkl(files) if files.len() == 1) {
            let expected = "a dump.json or a .pkl of ptdbg_ascend, as a folder of tensors was named for it";
            let found = "a dump that does not have its tensors in a folder beside it";
            return Err(Error::whole(Fault::malformed(expected, found)).in_file(&self.path));
        }
        // The user may name a link; nothing below it may be one.
        let resolved = storage::real_path(folder).map_err(|error| Error::whole(error).in_file(folder))?;
        place.data = Some(if folder.is_symlink() { resolved } else { folder.to_owned() });
        Ok(self)
    }
}

/// Steps in order, then ranks; those without a number are last.
fn order(a: &Found, b: &Found) -> std::cmp::Ordering {
    let number = |number: Option<u64>| (number.is_none(), number);
    let key = |found: &Found| (number(found.step), number(found.rank.number));
    key(a).cmp(&key(b)).then_with(|| natural::compare(a.rank.text.as_bytes(), b.rank.text.as_bytes()))
}

/// The numbers of a step and a rank.
type Numbers = (Option<u64>, Option<u64>);

impl Select {
    fn wants(&self, (step, rank): Numbers) -> bool {
        let listed = |numbers: &[u64], number: Option<u64>| {
            numbers.is_empty() || number.is_some_and(|number| numbers.contains(&number))
        };
        listed(&self.steps, step) && listed(&self.ranks, rank)
    }

    /// Checks that everything requested exists.
    fn check(&self, path: &Path, found: &[Numbers]) -> Result<(), Error> {
        let steps = found.iter().filter_map(|(step, _)| *step).collect();
        missing("step", &self.steps, &steps, path)?;
        let of_steps = Select { ranks: Vec::new(), ..self.clone() };
        let ranks = found.iter().filter(|found| of_steps.wants(**found)).filter_map(|(_, rank)| *rank);
        missing("rank", &self.ranks, &ranks.collect(), path)
    }
}

/// Fails for a number that does not exist.
fn missing(what: &str, wanted: &[u64], present: &BTreeSet<u64>, path: &Path) -> Result<(), Error> {
    let Some(number) = wanted.iter().find(|number| !present.contains(number)) else { return Ok(()) };
    let present: Vec<String> = present.iter().map(u64::to_string).collect();
    let found = match present.as_slice() {
        [] => format!("no {what} with a number"),
        [one] => format!("only {what} {one}"),
        all => format!("{what}s {}", all.join(", ")),
    };
    Err(Error::whole(Fault::malformed(format!("{what} {number}"), found)).in_file(path))
}

/// Which machines have a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// What is opened, see [`RankPlace::path`].
    pub path: PathBuf,
    /// Their places in the list of machines.
    pub machines: Vec<usize>,
}

impl RankPlace {
    /// Whether files beside the opened one belong to the rank.
    pub(crate) fn has_companions(&self) -> bool {
        match &self.opening {
            Opening::Msprobe(files) | Opening::Pkl(files) => files.len() == 1,
            Opening::Journal(_) => true,
            _ => false,
        }
    }

    /// The folder of its tensors, if the user named one.
    pub(crate) fn data_folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    /// The file or folder that is opened.
    pub fn path(&self) -> &Path {
        self.opening.path()
    }

    /// Reads the index of the rank.
    pub fn open(&self) -> Result<Rank, Error> {
        let data = self.data.as_deref();
        match &self.opening {
            Opening::Msprobe(files) => joined::open(self.path(), files, |file| msprobe::open(file, data)),
            Opening::Journal(path) => journal::open(path),
            Opening::Pkl(files) => joined::open(self.path(), files, |file| pkl::open(file, data)),
            Opening::AsyncNpy(folder) => async_npy::open(folder),
            Opening::Acl(folder, files) => Ok(acl::open(folder, files)),
            Opening::Tensorflow(folder, files) => Ok(tensorflow::open(folder, files)),
            Opening::Folder(folder, names) => files::open_folder(folder, names),
            Opening::File(path) => files::open_file(path),
            Opening::Entry(path) => files::open_entry(path),
        }
    }
}
