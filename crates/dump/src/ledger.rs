//! What a run of Ulpscope records about its own capture: how many calls there were, what became of them, and how it
//! ended.
//!
//! Two dumps can be compared only where both recorded the same calls. A dump does not say why a call is missing; the
//! ledger does.

use std::path::Path;

use ulpscope_formats::json::{self, Json};
use ulpscope_formats::{Access, Bytes, Error, Fault, Place, storage};

use crate::links;

/// The name of a ledger beside a `dump.json`.
pub(crate) const LEDGER_FILE: &str = "ledger.json";

/// The largest ledger that is read. A run writes a few hundred bytes.
pub(crate) const MAX_LEDGER_BYTES: u64 = 4 << 20;

/// What a call of a model returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelResults {
    /// How many calls of the dump had begun when it returned.
    pub calls: u64,
    /// Where its tensors came from, by their place in what it returned (`0.logits` of the first call); nothing where no
    /// recorded call returned one.
    pub results: Vec<(String, Option<String>)>,
}

/// What became of the calls of a run: each was recorded, raised, was skipped, or failed. `unread` counts tensors,
/// not calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Calls that the run saw.
    pub seen: u64,
    /// Calls in the dump, with their results.
    pub recorded: u64,
    /// Calls in the dump without results, because they raised: by name and kind of error, in the order written.
    pub raised: Vec<(String, u64)>,
    /// Calls left out on purpose, by reason, in the order written.
    pub skipped: Vec<(String, u64)>,
    /// Calls that could not be recorded, by name and error, in the order written.
    pub failed: Vec<(String, u64)>,
    /// Tensors of recorded calls whose elements could not be read, by reason, in the order written.
    pub unread: Vec<(String, u64)>,
    /// What models returned, one for each of their calls; empty if that is not known.
    pub returned: Vec<ModelResults>,
    /// Other information.
    pub notes: Vec<String>,
    /// Why capture ended early, if it did.
    pub ended: Option<String>,
    /// Whether capture ended at a limit of the settings: nothing that was requested is missing.
    pub limited: bool,
}

impl Ledger {
    /// Whether a folder has a ledger, even a damaged one.
    pub(crate) fn is_beside(folder: &Path) -> bool {
        storage::exists(&folder.join(LEDGER_FILE))
    }

    /// Reads the ledger in a folder; nothing if there is none.
    pub(crate) fn read_beside(folder: &Path) -> Result<Option<Ledger>, Error> {
        let path = folder.join(LEDGER_FILE);
        if !storage::exists(&path) {
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

    /// Reads the JSON of a ledger. Unknown keys are ignored; all except `seen` and `recorded` may be missing.
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
        let returned = match field("returned") {
            Json::Null => Vec::new(),
            Json::List(calls) => calls.iter().map(ModelResults::from_json).collect::<Result<_, Error>>()?,
            other => return Err(wrong("returned", "a list of objects", other)),
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
            returned,
            notes,
            ended,
            limited,
        })
    }

    /// Whether capture ended before everything requested was recorded.
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

    /// How many tensors have no statistics because they could not be read.
    pub fn unread_tensors(&self) -> u64 {
        sum(&self.unread)
    }
}

impl ModelResults {
    fn from_json(json: &Json) -> Result<ModelResults, Error> {
        let wrong = |expected: &str, found: &Json| {
            Error::at(Place::Part("returned".to_owned()), Fault::malformed(expected, found.describe()))
        };
        let (calls, results) = (json.get("calls"), json.get("results"));
        let calls = match calls.unwrap_or(&Json::Null) {
            Json::Int(number) if u64::try_from(*number).is_ok() => *number as u64,
            other => return Err(wrong("an integer from 0 up", other)),
        };
        let Json::Object(results) = results.unwrap_or(&Json::Null) else {
            return Err(wrong("an object of results", results.unwrap_or(&Json::Null)));
        };
        let source = |value: &Json| match value {
            Json::Null => Ok(None),
            Json::Str(source) => Ok(Some(source.clone())),
            other => Err(wrong("the name of a result, or null", other)),
        };
        let results = results.iter().map(|(path, value)| Ok((path.clone(), source(value)?)));
        Ok(ModelResults { calls, results: results.collect::<Result<_, Error>>()? })
    }
}

fn sum(counts: &[(String, u64)]) -> u64 {
    counts.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}
