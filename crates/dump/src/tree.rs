//! Finds the steps and ranks in the path that the user named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ulpscope_formats::{Error, Fault, natural};

use crate::find::{self, Found, Opening};
use crate::problems::Problems;
use crate::rank::Rank;
use crate::{acl, async_npy, files, joined, journal, msprobe, pkl, tensorflow};

/// Which steps and ranks to read; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Numbers of steps.
    pub steps: Vec<u64>,
    /// Numbers of ranks.
    pub ranks: Vec<u64>,
}

/// A dump: the path that the user named, as steps and ranks. Only folders have been read.
#[derive(Debug)]
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
#[derive(Debug)]
pub struct Step {
    /// Its number, if its folder has one.
    pub number: Option<u64>,
    /// Whether it is what the run did after its last step, and not a dump without step folders.
    pub is_after_last: bool,
    /// In order of their numbers; those without a number are last.
    pub ranks: Vec<RankPlace>,
}

/// A rank, not opened yet.
#[derive(Clone, Debug)]
pub struct RankPlace {
    /// Its number, if its folder has one; a process id does not count.
    pub number: Option<u64>,
    /// The name of its folder, `rank0`, `proc1000`; empty if there is none.
    pub name: String,
    opening: Opening,
    /// The folder of its tensors, if the user named one.
    data: Option<PathBuf>,
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
        select.check(path, &found)?;
        let has_numbers = found.iter().any(|found| found.step.is_some());
        let mut steps: Vec<Step> = Vec::new();
        for Found { step, rank, opening } in found.into_iter().filter(|found| select.wants(found)) {
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
        let is_folder = folder.metadata().map_err(|error| Error::whole(error).in_file(folder))?.is_dir();
        if !is_folder {
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
        let resolved = folder.canonicalize().map_err(|error| Error::whole(error).in_file(folder))?;
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

impl Select {
    fn wants(&self, found: &Found) -> bool {
        let listed = |numbers: &[u64], number: Option<u64>| {
            numbers.is_empty() || number.is_some_and(|number| numbers.contains(&number))
        };
        listed(&self.steps, found.step) && listed(&self.ranks, found.rank.number)
    }

    /// Checks that everything requested exists.
    fn check(&self, path: &Path, found: &[Found]) -> Result<(), Error> {
        let steps = found.iter().filter_map(|found| found.step).collect();
        missing("step", &self.steps, &steps, path)?;
        let of_steps = Select { ranks: Vec::new(), ..self.clone() };
        let ranks = found.iter().filter(|found| of_steps.wants(found)).filter_map(|found| found.rank.number);
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

impl RankPlace {
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
