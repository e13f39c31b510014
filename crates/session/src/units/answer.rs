//! The answer to a unit, as it travels and as it is saved.

use std::io;
use std::path::PathBuf;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use ulpscope_compare::{CompareError, RankOutcome, Row, unpack_row};
use ulpscope_dump::Inputs;

use super::store::SCHEMA;

/// The answer, except for the rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnitAnswer<R = IgnoredAny> {
    /// Changes with every incompatible change.
    schema: String,
    /// The release that answered.
    ulpscope: String,
    /// Which unit it is.
    pub(crate) unit: String,
    /// What was read: target, golden, and the noise dump; or the one rank.
    pub(crate) inputs: Vec<Inputs>,
    /// What was found; `None` if nothing could be read.
    pub(crate) found: Option<R>,
    /// Why not.
    pub(crate) error: Option<String>,
    /// The finished sheets.
    pub(crate) files: Vec<PathBuf>,
    /// Sheets that could not be written, and why.
    pub(crate) failures: Vec<String>,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// What was found in a pair of ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ComparedUnit {
    pub(crate) outcome: RankOutcome,
    /// The headings of the rows.
    pub(crate) columns: Vec<String>,
}

impl<R> UnitAnswer<R> {
    /// One without content.
    pub(crate) fn of(unit: String, inputs: Vec<Inputs>) -> UnitAnswer<R> {
        UnitAnswer {
            schema: SCHEMA.to_owned(),
            ulpscope: env!("CARGO_PKG_VERSION").to_owned(),
            unit,
            inputs,
            found: None,
            error: None,
            files: Vec::new(),
            failures: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Whether nothing could be read.
    pub fn is_error(&self) -> bool {
        self.found.is_none()
    }
}

impl<R: DeserializeOwned> UnitAnswer<R> {
    /// Reads an answer, and checks that this release made it.
    pub(crate) fn parse(text: &[u8]) -> Result<UnitAnswer<R>, String> {
        let answer: UnitAnswer<R> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (found, own) = (&answer.ulpscope, env!("CARGO_PKG_VERSION"));
        if answer.schema != SCHEMA || found != own {
            return Err(format!("expected an answer of ulpscope {own} ({SCHEMA}), found one of {found}"));
        }
        Ok(answer)
    }
}

impl UnitAnswer<ComparedUnit> {
    /// The result of a pair.
    pub(crate) fn into_result<S>(self, sink: S) -> Result<(RankOutcome, S), CompareError> {
        match self.found {
            Some(found) => Ok((found.outcome, sink)),
            None => Err(CompareError::Elsewhere(self.error.unwrap_or_default())),
        }
    }
}

/// The rows of an answer.
pub(crate) fn rows(mut packed: &[u8]) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    while let Some(row) = unpack_row(&mut packed)? {
        rows.push(row);
    }
    Ok(rows)
}
