//! The origins of NaN and infinities in a dump: ranks are scanned here or elsewhere, and put in order over all ranks.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ulpscope_compare::overflow::{NonFiniteOrigin, OriginMerge, RankScan, overflows_of_rank};
use ulpscope_dump::{Dump, Error, Problems, RankPlace, Select, Step};

use crate::overflow::{device_overflow, device_overflow_lines};
use crate::words::Language;

/// What was found in one rank.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScannedRank {
    scan: RankScan,
    detected: Vec<DetectedText>,
    /// What could not be read of operators that overflowed.
    problems: Problems,
}

/// An overflow that a device detected.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DetectedText {
    /// As JSON.
    pub document: Value,
    /// In words.
    pub lines: Vec<String>,
}

impl ScannedRank {
    /// Scans a rank.
    pub(crate) fn of(step: Option<u64>, place: &RankPlace, language: Language) -> Result<ScannedRank, Error> {
        let rank = place.open()?;
        let mut problems = Problems::default();
        let detected = overflows_of_rank(&rank, step, place, &mut problems);
        let text = |one| DetectedText {
            document: device_overflow(&one),
            lines: device_overflow_lines(&one, language),
        };
        let detected = detected.into_iter().map(text).collect();
        Ok(ScannedRank { scan: RankScan::of(&rank, place), detected, problems })
    }
}

/// Gets the ranks of a step, or why they cannot be read.
pub type TakeStep<'a> = dyn FnMut(&Step, Vec<Result<ScannedRank, String>>) + 'a;

/// Scans the ranks of a dump, here or elsewhere. The result does not depend on the engine.
pub trait ScanEngine {
    /// Finds the steps and ranks of a dump.
    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error>;

    /// Scans every rank. `take` gets those of one step after another.
    fn scan(&self, dump: &Dump, language: Language, take: &mut TakeStep<'_>) -> Result<(), Error>;
}

/// Scans in this process.
pub struct ScanHere;

impl ScanEngine for ScanHere {
    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        Dump::open(path, select)
    }

    fn scan(&self, dump: &Dump, language: Language, take: &mut TakeStep<'_>) -> Result<(), Error> {
        for step in &dump.steps {
            let scan =
                |place| ScannedRank::of(step.number, place, language).map_err(|error| error.to_string());
            let scanned = step.ranks.iter().map(scan).collect();
            take(step, scanned);
        }
        Ok(())
    }
}

/// What to search.
#[derive(Clone, Debug)]
pub struct OverflowRequest {
    /// The dump.
    pub dump: PathBuf,
    /// Which steps and ranks.
    pub select: Select,
    /// The language of what a device reported.
    pub language: Language,
}

/// What was found.
#[derive(Debug, Default)]
pub struct OverflowFound {
    /// The origins, by steps, then in the order of the data flow.
    pub origins: Vec<NonFiniteOrigin>,
    /// How many calls were searched.
    pub calls: usize,
    /// How many of them have numbers.
    pub measured: usize,
    /// What devices detected, by steps and ranks.
    pub detected: Vec<DetectedText>,
    /// Whether everything was recorded and read.
    pub is_whole: bool,
    /// What limits the result.
    pub notes: Vec<String>,
    /// What could not be read.
    pub problems: Problems,
}

/// Searches a dump. Fails only if nothing can be searched.
pub fn search_overflow(request: &OverflowRequest, engine: &dyn ScanEngine) -> Result<OverflowFound, Error> {
    let dump = engine.find(&request.dump, &request.select)?;
    let mut found = OverflowFound {
        problems: dump.problems.clone(),
        notes: dump.notes.clone(),
        ..OverflowFound::default()
    };
    let mut merge = OriginMerge::default();
    let mut of_devices = Problems::default();
    engine.scan(&dump, request.language, &mut |step, ranks| {
        let mut scans = Vec::new();
        for rank in ranks {
            match rank {
                Ok(rank) => {
                    scans.push(rank.scan);
                    found.detected.extend(rank.detected);
                    of_devices.extend(rank.problems);
                }
                Err(why) => found.problems.note(why),
            }
        }
        merge.add(step.number, scans, &mut found.notes, &mut found.problems);
    })?;
    found.is_whole = found.notes.len() == dump.notes.len() && found.problems.is_empty();
    found.problems.extend(of_devices);
    found.calls = merge.search.calls;
    found.measured = merge.search.measured;
    found.origins = merge.search.origins;
    Ok(found)
}
