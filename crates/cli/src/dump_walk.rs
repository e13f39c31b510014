//! Visits the ranks of a dump in order, and collects read errors.

use std::path::PathBuf;

use ulpscope_dump::{Dump, Problems, Rank, RankPlace, Select};

use crate::args::DumpArgs;
use ulpscope_session::NumberRanges;

/// The selected part of a dump.
pub(crate) struct DumpWalk {
    dump: Dump,
    problems: Problems,
    notes: Vec<String>,
}

/// A rank that was opened.
pub(crate) struct Opened<'d> {
    pub(crate) step: Option<u64>,
    pub(crate) place: &'d RankPlace,
    pub(crate) rank: Rank,
}

impl DumpWalk {
    pub(crate) fn open(args: &DumpArgs) -> anyhow::Result<DumpWalk> {
        let select = {
            let chosen = |numbers: &Option<NumberRanges>| numbers.clone().unwrap_or_default().0;
            Select { steps: chosen(&args.step), ranks: chosen(&args.rank) }
        };
        let dump = Dump::open(&args.dump, &select)?;
        let mut walk = DumpWalk { dump, problems: Problems::default(), notes: Vec::new() };
        walk.rewind();
        Ok(walk)
    }

    /// Clears the collected errors, so that the ranks can be visited again.
    pub(crate) fn rewind(&mut self) {
        self.problems = self.dump.problems.clone();
        self.notes = self.dump.notes.clone();
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.dump.path
    }

    /// Whether there is more than one rank.
    pub(crate) fn has_several(&self) -> bool {
        self.dump.steps.iter().map(|step| step.ranks.len()).sum::<usize>() > 1
    }

    /// Shows each rank that can be opened, in order of steps and ranks.
    pub(crate) fn each(
        &mut self,
        mut see: impl FnMut(&Opened<'_>, &mut Problems) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for step in &self.dump.steps {
            for place in &step.ranks {
                match place.open() {
                    Ok(rank) => {
                        let opened = Opened { step: step.number, place, rank };
                        see(&opened, &mut self.problems)?;
                        self.problems.extend(opened.rank.problems());
                        self.notes.extend_from_slice(opened.rank.notes());
                    }
                    Err(error) => self.problems.add(&error),
                }
            }
        }
        Ok(())
    }

    /// Where the run ended early, for people. The recorded part is readable, so this is not a failure.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// What could not be read, for people.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut errors = self.problems.listed().to_vec();
        let more = self.problems.unlisted();
        if more > 0 {
            errors.push(format!("{more} more problems of this kind"));
        }
        errors
    }
}

impl Opened<'_> {
    /// Step, rank and place, for people.
    pub(crate) fn label(&self) -> String {
        let mut words = Vec::new();
        words.extend(self.step.map(|step| format!("step {step}")));
        if !self.place.name.is_empty() {
            words.push(self.place.name.clone());
        }
        words.push(format!("{} ({})", self.place.path().display(), self.rank.describe()));
        words.join(", ")
    }
}
