//! What a run of Ulpscope says of its own capture: how many calls it saw, what became of them, and how it ended.
//!
//! Two dumps can only be held against each other as far as they recorded the same. A dump that lacks a call says
//! nothing of why; the ledger does.

use std::path::Path;

use ulpscope_formats::json::{self, Json};
use ulpscope_formats::{Access, Bytes, Error, Fault, Place};

use crate::links;

/// The name of a ledger beside a `dump.json`.
pub(crate) const LEDGER_FILE: &str = "ledger.json";

/// Largest ledger read. A run writes some hundred bytes.
pub(crate) const MAX_LEDGER_BYTES: u64 = 4 << 20;

/// What became of the calls that a run saw: each was recorded, raised, was skipped, or failed. `unread` counts tensors,
/// not calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Calls that were seen.
    pub seen: u64,
    /// Calls that are in the dump, with what they returned.
    pub recorded: u64,
    /// Calls that are in the dump without results, because they raised: by name and kind of error, in the order written.
    pub raised: Vec<(String, u64)>,
    /// Calls left out on purpose, by reason, in the order written.
    pub skipped: Vec<(String, u64)>,
    /// Calls that could not be recorded, by name and error, in the order written.
    pub failed: Vec<(String, u64)>,
    /// Tensors of recorded calls whose elements could not be read, by reason, in the order written.
    pub unread: Vec<(String, u64)>,
    /// What else there is to know.
    pub notes: Vec<String>,
    /// Why capture ended early, if it did.
    pub ended: Option<String>,
    /// Whether it ended where the settings have it end: nothing that was wanted is missing.
    pub limited: bool,
}

impl Ledger {
    /// Whether there is a ledger in a folder, be it damaged.
    pub(crate) fn is_beside(folder: &Path) -> bool {
        folder.join(LEDGER_FILE).exists()
    }

    /// Reads the ledger in a folder; nothing where there is none.
    pub(crate) fn read_beside(folder: &Path) -> Result<Option<Ledger>, Error> {
        let path = folder.join(LEDGER_FILE);
        if !path.exists() {
            return Ok(None);
        }
        let read = || {
            links::refuse(&path)?;
            let bytes = Bytes::map(&path, Access::ReadOnly)?;
            if bytes.len() as u64 > MAX_LEDGER_BYTES {
                let (limit, found) = (MAX_LEDGER_BYTES, bytes.len() as u64);
                return Err(Error::whole(Fault::TooLarge { what: "the size", limit, found }));
            }
            bytes.reading(|| Ledger::from_json(&json::read(&bytes)?))
        };
        read().map(Some).map_err(|error| error.in_file(&path))
    }

    /// What a ledger's JSON says. Unknown keys are passed over; those but `seen` and `recorded` may be missing.
    pub(crate) fn from_json(json: &Json) -> Result<Ledger, Error> {
        let Json::Object(_) = json else {
            return Err(Error::whole(Fault::malformed("a ledger, an object", json.describe())));
        };
        let field = |key: &str| json.get(key).unwrap_or(&Json::Null);
        let wrong = |key: &str, expected: &str, found: &Json| {
            Error::at(Place::Part(key.to_owned()), Fault::malformed(expected, found.describe()))
        };
        let count = |key: &str, value: &Json| match value {
            Json::Int(number) if u64::try_from(*number).is_ok() => Ok(*number as u64),
            other => Err(wrong(key, "an integer from 0 up", other)),
        };
        let counts = |key: &str| match field(key) {
            Json::Null => Ok(Vec::new()),
            Json::Object(pairs) => {
                pairs.iter().map(|(reason, value)| Ok((reason.clone(), count(key, value)?))).collect()
            }
            other => Err(wrong(key, "an object of counts", other)),
        };
        let text = |key: &str, value: &Json| match value {
            Json::Str(text) => Ok(text.clone()),
            other => Err(wrong(key, "text", other)),
        };
        let notes = match field("notes") {
            Json::Null => Vec::new(),
            Json::List(notes) => {
                notes.iter().map(|note| text("notes", note)).collect::<Result<_, Error>>()?
            }
            other => return Err(wrong("notes", "a list of text", other)),
        };
        let ended = match field("ended") {
            Json::Null => None,
            other => Some(text("ended", other)?),
        };
        let limited = match field("limited") {
            Json::Null => false,
            Json::Bool(limited) => *limited,
            other => return Err(wrong("limited", "true or false", other)),
        };
        Ok(Ledger {
            seen: count("seen", field("seen"))?,
            recorded: count("recorded", field("recorded"))?,
            raised: counts("raised")?,
            skipped: counts("skipped")?,
            failed: counts("failed")?,
            unread: counts("unread")?,
            notes,
            ended,
            limited,
        })
    }

    /// Whether capture ended before everything that was wanted was recorded.
    pub fn is_cut(&self) -> bool {
        self.ended.is_some() && !self.limited
    }

    /// How many calls raised an error.
    pub fn raised_calls(&self) -> u64 {
        sum(&self.raised)
    }

    /// How many calls were left out on purpose.
    pub fn skipped_calls(&self) -> u64 {
        sum(&self.skipped)
    }

    /// How many calls could not be recorded.
    pub fn failed_calls(&self) -> u64 {
        sum(&self.failed)
    }

    /// How many tensors are without statistics because they could not be read.
    pub fn unread_tensors(&self) -> u64 {
        sum(&self.unread)
    }
}

fn sum(counts: &[(String, u64)]) -> u64 {
    counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}
