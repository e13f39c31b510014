//! The units that are still to be answered.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use ulpscope_dump::Inputs;

use super::answer::UnitAnswer;
use super::job::{Nodes, UnitJob, UnitWork};
use super::store::UnitStore;

/// Units, by number; some may have been answered before.
#[derive(Debug)]
pub struct UnitQueue {
    move_limit: u64,
    units: Vec<QueuedUnit>,
    store: UnitStore,
    /// Why units were given up.
    failures: Mutex<BTreeMap<usize, String>>,
}

/// A unit, and where it can be answered.
#[derive(Debug)]
pub struct QueuedUnit {
    pub(crate) work: UnitWork,
    pub(crate) inputs: Vec<Inputs>,
    /// The nodes that have each of them.
    pub(crate) holders: Vec<Nodes>,
    /// Its name.
    pub label: String,
    /// The nodes that can answer it, or why there is none; `None`: all.
    pub nodes: Option<Result<Vec<String>, String>>,
    /// Whether it was answered by an earlier start.
    pub is_done: bool,
}

impl QueuedUnit {
    /// Whether it is to be answered.
    pub fn is_open(&self) -> bool {
        !self.is_done && !matches!(self.nodes, Some(Err(_)))
    }

    /// The size of its files.
    pub fn bytes(&self) -> u64 {
        self.inputs.iter().map(|inputs| inputs.bytes).sum()
    }
}

impl UnitQueue {
    pub(crate) fn new(move_limit: u64, units: Vec<QueuedUnit>, store: UnitStore) -> UnitQueue {
        UnitQueue { move_limit, units, store, failures: Mutex::default() }
    }

    /// All units.
    pub fn units(&self) -> &[QueuedUnit] {
        &self.units
    }

    /// The job of a unit.
    pub fn job(&self, number: usize) -> Result<String, String> {
        let queued = self.unit(number)?;
        let job = UnitJob {
            work: queued.work.clone(),
            inputs: queued.inputs.clone(),
            holders: queued.holders.clone(),
            move_limit: self.move_limit,
        };
        serde_json::to_string(&job).map_err(|error| error.to_string())
    }

    /// Saves the answer of a unit: it is done when this returns.
    pub fn deliver(&self, number: usize, answer: &[u8], rows: &[u8]) -> Result<UnitAnswer, String> {
        let label = &self.unit(number)?.label;
        let parsed: UnitAnswer = UnitAnswer::parse(answer)?;
        if parsed.unit != *label {
            return Err(format!("expected the answer of {label}, found that of {}", parsed.unit));
        }
        self.store.save(label, answer, rows).map_err(|error| error.to_string())?;
        Ok(parsed)
    }

    /// Gives up the units that no node can answer.
    pub(crate) fn fail_impossible(&self) {
        for (number, unit) in self.units.iter().enumerate() {
            if let (false, Some(Err(why))) = (unit.is_done, &unit.nodes) {
                self.fail(number, why.clone());
            }
        }
    }

    /// Gives a unit up.
    pub fn fail(&self, number: usize, why: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).insert(number, why);
    }

    /// The answer of a unit with its rows, or why it has none.
    pub(crate) fn answer<R: DeserializeOwned>(
        &self,
        number: usize,
    ) -> Result<(UnitAnswer<R>, Vec<u8>), String> {
        let label = &self.unit(number)?.label;
        if let Some(why) = self.failures.lock().unwrap_or_else(PoisonError::into_inner).get(&number) {
            return Err(why.clone());
        }
        self.store.read(label).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "it was not answered".to_owned(),
            _ => error.to_string(),
        })
    }

    fn unit(&self, number: usize) -> Result<&QueuedUnit, String> {
        self.units.get(number).ok_or_else(|| format!("there is no unit {number}"))
    }
}
