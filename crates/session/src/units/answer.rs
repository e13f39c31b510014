//! The answer to a unit, as it travels and as it is saved.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use ulpscope_compare::{CompareError, RankOutcome, Row, unpack_row};
use ulpscope_dump::Inputs;

use super::store::SCHEMA;

/// The answer, except for the rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct UnitAnswer {
    /// Changes with every incompatible change.
    pub(crate) schema: String,
    /// The release that compared.
    pub(crate) ulpscope: String,
    /// Which unit it is, see `UnitKey`.
    pub(crate) unit: String,
    /// What was compared: target, golden, and the noise dump.
    pub(crate) inputs: Vec<Inputs>,
    /// The outcome; `None` if the pair could not be compared.
    pub(crate) outcome: Option<RankOutcome>,
    /// Why not.
    pub(crate) error: Option<String>,
    /// The headings of the rows.
    pub(crate) columns: Vec<String>,
    /// The finished sheets.
    pub(crate) files: Vec<PathBuf>,
    /// Sheets that could not be written, and why.
    pub(crate) failures: Vec<String>,
    /// How long it took.
    pub(crate) seconds: f64,
}

impl UnitAnswer {
    /// Reads an answer, and checks that this release made it.
    pub(crate) fn parse(text: &[u8]) -> Result<UnitAnswer, String> {
        let answer: UnitAnswer = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (found, own) = (&answer.ulpscope, env!("CARGO_PKG_VERSION"));
        if answer.schema != SCHEMA || found != own {
            return Err(format!("expected an answer of ulpscope {own} ({SCHEMA}), found one of {found}"));
        }
        Ok(answer)
    }

    /// The bytes of tensors that were compared.
    pub fn bytes(&self) -> u64 {
        self.outcome.as_ref().map_or(0, |outcome| outcome.bytes)
    }

    /// Whether the pair could not be compared.
    pub fn is_error(&self) -> bool {
        self.outcome.is_none()
    }

    /// The result of the pair.
    pub(crate) fn into_result<S>(self, sink: S) -> Result<(RankOutcome, S), CompareError> {
        match self.outcome {
            Some(outcome) => Ok((outcome, sink)),
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
