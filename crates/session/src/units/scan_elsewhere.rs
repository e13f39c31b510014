//! The engine that has ranks scanned for NaN and infinities elsewhere.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ulpscope_dump::{Dump, Error, Select};

use super::dispatcher::Dispatcher;
use super::job::UnitWork;
use super::node_dumps::{DumpNodes, NodeDumps, engine_error};
use super::scan_work::ScanWork;
use super::store::UnitStore;
use crate::Language;
use crate::overflow_search::{ScanEngine, ScannedRank, TakeStep};

/// Has ranks scanned elsewhere; answers are saved in a folder.
pub struct ScanElsewhere<'a> {
    dumps: NodeDumps<'a>,
    store: Mutex<Option<UnitStore>>,
    /// Is removed at the end.
    _temporary: Option<tempfile::TempDir>,
}

impl<'a> ScanElsewhere<'a> {
    /// For a dump. Answers are saved in a folder `units` in that of the results, if there is one. With `resume`, answers of
    /// an earlier start are used.
    pub fn new(
        dispatcher: &'a dyn Dispatcher,
        dump: &Path,
        language: Language,
        nodes: DumpNodes,
        results: Option<&Path>,
        resume: bool,
    ) -> io::Result<ScanElsewhere<'a>> {
        let temporary = results.is_none().then(tempfile::tempdir).transpose()?;
        let answers = results.or(temporary.as_ref().map(|folder| folder.path())).unwrap_or(Path::new("."));
        let settings = serde_json::json!({ "overflow": dump, "language": language });
        let store = Mutex::new(Some(UnitStore::open(answers, settings, resume)?));
        Ok(ScanElsewhere { dumps: NodeDumps::new(dispatcher, nodes), store, _temporary: temporary })
    }
}

impl ScanEngine for ScanElsewhere<'_> {
    fn find(&self, path: &Path, select: &Select) -> Result<Dump, Error> {
        self.dumps.find(path, select)
    }

    fn scan(&self, dump: &Dump, language: Language, take: &mut TakeStep<'_>) -> Result<(), Error> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner).take();
        let store = store.ok_or_else(|| engine_error("a search runs once".to_owned()))?;
        let mut units = Vec::new();
        for step in &dump.steps {
            for place in &step.ranks {
                let (step, is_after_last) = (step.number, step.is_after_last);
                let work = ScanWork { step, is_after_last, place: place.clone(), language };
                let label = work.key();
                let work = UnitWork::Scan(Box::new(work));
                units.push(self.dumps.unit(label, work, &[("rank", place)], &store));
            }
        }
        // What was answered until it ended is still a result.
        let (queue, ended) = self.dumps.dispatch(units, store);
        let mut number = 0;
        let mut has_any = false;
        for step in &dump.steps {
            // Those of one step are in memory at a time.
            let scanned = step.ranks.iter().map(|place| {
                let answer = queue.answer::<ScannedRank>(number);
                number += 1;
                let found =
                    answer.and_then(|(answer, _)| answer.found.ok_or(answer.error.unwrap_or_default()));
                has_any |= found.is_ok();
                found.map_err(|why| match &ended {
                    Err(ended) => format!("{}: {why}: {ended}", place.path().display()),
                    // The error of a rank names its file.
                    Ok(()) if why.contains(&*place.path().to_string_lossy()) => why,
                    Ok(()) => format!("{}: {why}", place.path().display()),
                })
            });
            let scanned = scanned.collect();
            take(step, scanned);
        }
        match ended {
            Err(why) if !has_any => Err(engine_error(why)),
            _ => Ok(()),
        }
    }
}
