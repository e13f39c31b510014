//! The ranks of a unit, opened on a worker: those that are on other nodes are moved to a folder that is removed afterwards.
//!
//! Texts name the files as they are on their own nodes: whatever leaves the worker is translated.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use ulpscope_compare::{Note, OpenedPair, RankPair, Row};
use ulpscope_dump::moved::{MirrorFolder, MoveError};
use ulpscope_dump::{Rank, RankPlace};
use ulpscope_report::Cell;

use super::far_files::FarFiles;
use super::job::{UnitPlace, Worker};

/// How many bytes of tensors may be moved for a rank, by default.
pub const MOVE_LIMIT: u64 = 1 << 30;

/// The folders of moved ranks.
#[derive(Default)]
pub(super) struct Gathered {
    /// Removed at the end.
    folders: Vec<TempDir>,
    names: Vec<(String, String)>,
    /// What was not moved.
    pub(super) notes: Vec<Note>,
}

impl Gathered {
    /// Opens the ranks of a pair. Of a noise dump that cannot be read, the error is part of it.
    pub(super) fn open(
        &mut self,
        pair: &RankPair<'_>,
        place: &UnitPlace<'_>,
    ) -> Result<OpenedPair, MoveError> {
        let UnitPlace { worker, holders, move_limit: limit } = place;
        let (worker, limit) = (*worker, *limit);
        let nodes = |side: usize| {
            let nodes = holders.get(side)?.as_ref()?;
            let is_here = worker.node.is_none_or(|here| nodes.iter().any(|node| node == here));
            (!is_here).then_some(nodes.as_slice())
        };
        if [0, 1, 2].into_iter().all(|side| nodes(side).is_none()) {
            return Ok(OpenedPair::open(pair)?);
        }
        let mut budget = limit;
        let target = match nodes(0) {
            None => pair.target.open()?,
            Some(nodes) => self.moved(pair.target, nodes, None, &mut budget, limit, worker)?,
        };
        let at_hand = Some((pair.target, &target)).filter(|_| nodes(0).is_none());
        let golden = match nodes(1) {
            None => pair.golden.open()?,
            Some(nodes) => self.moved(pair.golden, nodes, at_hand, &mut budget, limit, worker)?,
        };
        let noise = match (pair.noise, nodes(2)) {
            (None, _) => None,
            (Some(noise), None) => Some(noise.open()),
            (Some(noise), Some(nodes)) => {
                match self.moved(noise, nodes, at_hand, &mut budget, limit, worker) {
                    Ok(rank) => Some(Ok(rank)),
                    Err(MoveError::Dump(error)) => Some(Err(error)),
                    Err(error) => return Err(error),
                }
            }
        };
        Ok(OpenedPair { target, golden, noise })
    }

    fn moved(
        &mut self,
        place: &RankPlace,
        nodes: &[String],
        at_hand: Option<(&RankPlace, &Rank)>,
        budget: &mut u64,
        limit: u64,
        worker: Worker<'_>,
    ) -> Result<Rank, MoveError> {
        let reader =
            worker.reader.ok_or_else(|| MoveError::NotMoved("it cannot ask other nodes".to_owned()))?;
        let folder = tempfile::Builder::new().prefix("ulpscope-moved-").tempdir();
        let folder =
            folder.map_err(|error| MoveError::NotMoved(format!("no folder for moved files: {error}")))?;
        let mirror = MirrorFolder::new(folder.path(), place);
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        self.names.extend(mirror.names().into_iter().map(|(mirror, own)| (text(mirror), text(own))));
        let opened = mirror.open(&FarFiles { reader, nodes, place }, at_hand, budget);
        self.folders.push(folder);
        let (rank, counts) = opened?;
        if counts.left > 0 {
            self.notes.push(Note::TensorsNotMoved {
                path: text(place.path().to_owned()),
                tensors: counts.left,
                bytes: counts.left_bytes,
                limit,
            });
        }
        Ok(rank)
    }

    /// Names files as they are on their own nodes.
    fn translate(&self, text: &mut String) {
        for (mirror, own) in &self.names {
            if text.contains(mirror.as_str()) {
                *text = text.replace(mirror.as_str(), own);
            }
        }
    }

    /// The same in a row.
    pub(super) fn translate_row(&self, row: &mut Row) {
        if !self.names.is_empty() {
            row.cells.iter_mut().for_each(|cell| self.translate_cell(cell));
        }
    }

    fn translate_cell(&self, cell: &mut Cell) {
        match cell {
            Cell::Text(text) => self.translate(text),
            Cell::List(cells) => cells.iter_mut().for_each(|cell| self.translate_cell(cell)),
            _ => {}
        }
    }

    /// An answer as JSON, with the same in all its texts.
    pub(super) fn translated(&self, answer: &impl Serialize) -> serde_json::Result<String> {
        if self.names.is_empty() {
            return serde_json::to_string(answer);
        }
        let mut value = serde_json::to_value(answer)?;
        self.translate_json(&mut value);
        serde_json::to_string(&value)
    }

    fn translate_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.translate(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.translate_json(item)),
            Value::Object(fields) => fields.values_mut().for_each(|item| self.translate_json(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}
