//! A pair of ranks, compared on a worker.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use ulpscope_compare::{
    CompareError, Layout, NoProgress, OpenedPair, Outputs, RankGroup, RankPair, Row, Sink, compare_group,
    compare_opened, pack_row,
};
use ulpscope_dump::moved::MoveError;
use ulpscope_dump::{Inputs, RankPlace};
use ulpscope_formats::Watch;
use ulpscope_report::SheetFormat;

use super::answer::{ComparedUnit, UnitAnswer};
use super::gathered::Gathered;
use super::job::{Answered, RowTargets, UnitPlace, step_word};
use crate::Request;
use crate::files::{FileOutputs, FileSink};

/// A pair of ranks, without what it borrows from its dumps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unit {
    pub(crate) step: Option<u64>,
    pub(crate) is_after_last: bool,
    pub(crate) place: Option<u64>,
    pub(crate) several_ranks: bool,
    pub(crate) several_steps: bool,
    pub(crate) pairs: usize,
    pub(crate) target: RankPlace,
    pub(crate) golden: RankPlace,
    pub(crate) noise: Option<RankPlace>,
}

impl Unit {
    pub(crate) fn of(pair: &RankPair<'_>) -> Unit {
        Unit {
            step: pair.step,
            is_after_last: pair.is_after_last,
            place: pair.place,
            several_ranks: pair.several_ranks,
            several_steps: pair.several_steps,
            pairs: pair.pairs,
            target: pair.target.clone(),
            golden: pair.golden.clone(),
            noise: pair.noise.cloned(),
        }
    }

    pub(crate) fn pair(&self) -> RankPair<'_> {
        RankPair {
            step: self.step,
            is_after_last: self.is_after_last,
            place: self.place,
            target: &self.target,
            golden: &self.golden,
            noise: self.noise.as_ref(),
            several_ranks: self.several_ranks,
            several_steps: self.several_steps,
            pairs: self.pairs,
        }
    }

    /// Its name: for people, and for the file of its answer.
    pub(crate) fn key(&self) -> String {
        let step = step_word(self.step, self.is_after_last);
        let name =
            |place: &RankPlace| if place.name.is_empty() { "rank".to_owned() } else { place.name.clone() };
        let (target, golden) = (name(&self.target), name(&self.golden));
        if target == golden { format!("{step}_{target}") } else { format!("{step}_{target}-{golden}") }
    }
}

/// The ranks that are merged for the comparison with the golden's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MergedRanks {
    targets: Vec<RankPlace>,
    layout: Layout,
}

impl MergedRanks {
    pub(crate) fn of(group: &RankGroup<'_>) -> MergedRanks {
        MergedRanks {
            targets: group.targets.iter().map(|&place| place.clone()).collect(),
            layout: group.layout.clone(),
        }
    }
}

/// A pair to compare.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CompareWork {
    pub(crate) request: Request,
    pub(crate) unit: Unit,
    /// If the target of the pair is the first of several ranks.
    pub(crate) merged: Option<MergedRanks>,
    pub(crate) rows: RowTargets,
}

impl CompareWork {
    /// The name of the unit.
    pub(crate) fn key(&self) -> String {
        match &self.merged {
            None => self.unit.key(),
            Some(merged) => {
                let step = step_word(self.unit.step, self.unit.is_after_last);
                format!("{step}_{}_ranks", merged.targets.len())
            }
        }
    }

    /// Compares it. Sheets go to `folder` if there is one, else to the folder of the results. Fails only if files of a
    /// different node could not be had: a pair that cannot be compared is an answer.
    pub(crate) fn answer(
        self,
        inputs: Vec<Inputs>,
        place: &UnitPlace<'_>,
        folder: Option<PathBuf>,
    ) -> Result<Answered, String> {
        let start = Instant::now();
        let watch = Watch::start();
        let formats = self
            .rows
            .formats
            .iter()
            .filter_map(|name| SheetFormat::ALL.into_iter().find(|format| format.name() == name));
        // The driver's name of a sheet is the one in the answer.
        let own_folder =
            self.rows.folder.as_ref().map(|named| folder.clone().unwrap_or_else(|| named.clone()));
        let sheets =
            FileOutputs::named(own_folder, self.request.style, formats.collect(), &self.rows.timestamp);
        let pair = self.unit.pair();
        let mut gathered = Gathered::default();
        let ranks = match &self.merged {
            Some(merged) => Ranks::Merged(merged),
            None => match gathered.open(&pair, place) {
                Ok(opened) => Ranks::Pair(Box::new(Ok(opened))),
                Err(MoveError::Dump(error)) => Ranks::Pair(Box::new(Err(error.into()))),
                Err(MoveError::NotMoved(why)) => return Err(why),
            },
        };
        let outputs = UnitOutputs { sheets, all_rows: self.rows.all_rows, gathered: &gathered };
        let mut answer: UnitAnswer<ComparedUnit> = UnitAnswer::of(self.key(), inputs);
        let mut rows = Vec::new();
        let mut written = Vec::new();
        let compared = match ranks {
            Ranks::Pair(opened) => self.request.style().map_err(CompareError::from).and_then(|style| {
                compare_opened(style.as_ref(), &pair, (*opened)?, &outputs, &NoProgress, None)
            }),
            Ranks::Merged(merged) => {
                let targets = merged.targets.iter().collect();
                let group = RankGroup { pair: pair.clone(), targets, layout: merged.layout.clone() };
                let pairing = self.request.pairing().map_err(CompareError::from);
                pairing.and_then(|pairing| compare_group(&pairing, &group, &outputs, &NoProgress))
            }
        };
        let result = watch.check().map_err(CompareError::from).and(compared);
        match result {
            Err(error) => answer.error = Some(error.to_string()),
            Ok((mut outcome, mut sink)) => {
                outcome.notes.extend(gathered.notes.iter().cloned());
                let (files, failures) = sink.sheets.finish();
                let named = |path: &PathBuf| match (&self.rows.folder, path.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => path.clone(),
                };
                answer.files = files.iter().map(named).collect();
                answer.failures = failures.iter().map(ToString::to_string).collect();
                let columns = std::mem::take(&mut sink.sheets.columns);
                answer.found = Some(ComparedUnit { outcome, columns });
                rows = match self.rows.all_rows {
                    true => sink.packed,
                    false => sink.sheets.kept.iter().fold(Vec::new(), |mut packed, row| {
                        pack_row(row, &mut packed);
                        packed
                    }),
                };
                written = files;
            }
        }
        answer.seconds = start.elapsed().as_secs_f64();
        let answer = gathered.translated(&answer).map_err(|error| error.to_string())?;
        Ok(Answered { answer, rows, files: written })
    }
}

/// What is compared.
enum Ranks<'a> {
    /// Two ranks.
    Pair(Box<Result<OpenedPair, CompareError>>),
    /// Several, with that of the golden.
    Merged(&'a MergedRanks),
}

/// Sheets, and every row if the answer has them all.
struct UnitOutputs<'a> {
    sheets: FileOutputs,
    all_rows: bool,
    gathered: &'a Gathered,
}

struct UnitSink<'a> {
    sheets: FileSink,
    all_rows: bool,
    packed: Vec<u8>,
    gathered: &'a Gathered,
}

impl<'a> Outputs for UnitOutputs<'a> {
    type Sink = UnitSink<'a>;

    fn open(&self, pair: &RankPair<'_>) -> io::Result<UnitSink<'a>> {
        let (all_rows, gathered) = (self.all_rows, self.gathered);
        Ok(UnitSink { sheets: self.sheets.open(pair)?, all_rows, packed: Vec::new(), gathered })
    }
}

impl Sink for UnitSink<'_> {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.sheets.columns(columns)
    }

    fn row(&mut self, mut row: Row) -> io::Result<()> {
        self.gathered.translate_row(&mut row);
        if self.all_rows {
            pack_row(&row, &mut self.packed);
        }
        self.sheets.row(row)
    }

    fn sheet(&self) -> Option<String> {
        self.sheets.sheet()
    }
}
