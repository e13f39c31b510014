//! What was seen, and what became of it: nothing is missed in silence.

use std::collections::BTreeMap;

/// Different reasons kept for failures; further ones are counted together.
const MAX_REASONS: usize = 100;

/// Why a call was left out that was met, and of which nothing else was known when the ledger was written: another thread
/// was about to record it.
const OVERTAKEN: &str = "began as the step ended";

/// Why a call was left out: it is not among what the settings select.
pub const NOT_SELECTED: &str = "not selected";

/// Why a call was left out: of the layers of its kind another is wanted.
pub const IN_REPEATED: &str = "in a repeated layer";

/// Why the call of a module was left out: it is no part of the model.
pub const OUTSIDE: &str = "outside the model";

/// Why a call was left out: it asks about a tensor, and computes nothing.
pub const METADATA: &str = "metadata";

/// Reasons to leave a call out whose backward call is not even watched.
const WITH_BACKWARD: [&str; 3] = [IN_REPEATED, OVER_CALLS, OVER_BYTES];

/// Why a call was left out: it would be one too many.
pub const OVER_CALLS: &str = "over max_calls";

/// Why a call was left out: enough has been written.
pub const OVER_BYTES: &str = "over max_bytes";

/// Why a call does not count as recorded whose arguments are in the dump: there was no room for its results.
pub const RESULTS_OVER_BYTES: &str = "results over max_bytes";

/// Counts of one rank in one step.
#[derive(Debug, Default)]
pub struct StepLedger {
    seen: u64,
    /// Calls that are in the journal, and have not raised.
    pub recorded: u64,
    raised: BTreeMap<String, u64>,
    skipped: BTreeMap<&'static str, u64>,
    failed: BTreeMap<String, u64>,
    unread: BTreeMap<String, u64>,
    notes: BTreeMap<String, u64>,
}

impl StepLedger {
    /// Counts a call, before anything is done about it. It is then recorded, left out, or fails.
    pub fn meet(&mut self) {
        self.seen += 1;
    }

    /// Counts a call that was met as one that is left out on purpose.
    pub fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Counts a call that was recorded as one that raised: it has no results.
    pub fn raise(&mut self, why: String) {
        self.recorded = self.recorded.saturating_sub(1);
        count(&mut self.raised, why);
    }

    /// Counts a failure.
    pub fn fail(&mut self, why: String) {
        count(&mut self.failed, why);
    }

    /// Counts a tensor of a recorded call whose elements could not be read.
    pub fn unread(&mut self, why: String) {
        count(&mut self.unread, why);
    }

    /// Adds a note. One that is given several times is there once, with how often.
    pub fn note(&mut self, text: String) {
        count(&mut self.notes, text);
    }

    /// Adds a note that is there once, however often it is given.
    pub fn note_once(&mut self, text: &str) {
        self.notes.insert(text.to_owned(), 1);
    }

    /// Calls that were met, and neither recorded nor left out, and neither raised nor failed.
    fn overtaken(&self) -> u64 {
        let others = self.raised.values().chain(self.skipped.values()).chain(self.failed.values());
        self.seen.saturating_sub(self.recorded + others.sum::<u64>())
    }

    /// Whether calls were left out for a reason that holds for their backward calls as well.
    pub fn has_left_out(&self) -> bool {
        WITH_BACKWARD.iter().any(|why| self.skipped.contains_key(why))
    }

    /// Whether a call was met.
    pub fn has_seen(&self) -> bool {
        self.seen > 0
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.seen == 0 && self.notes.is_empty()
    }

    /// What there is to say so far: with what ended recording early, or else with the limit that did.
    pub fn report(&self, ended: Option<&str>, limit: Option<&str>) -> ulpscope_dump::Ledger {
        let counts = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(why, count)| (why.clone(), *count)).collect::<Vec<_>>()
        };
        let mut skipped = self.skipped.clone();
        if self.overtaken() > 0 {
            skipped.insert(OVERTAKEN, self.overtaken());
        }
        let note = |(text, count): (&String, &u64)| match count {
            0 | 1 => text.clone(),
            count => format!("{text} ({count} times)"),
        };
        ulpscope_dump::Ledger {
            seen: self.seen,
            recorded: self.recorded,
            raised: counts(&self.raised),
            skipped: skipped.into_iter().map(|(why, count)| (why.to_owned(), count)).collect(),
            failed: counts(&self.failed),
            unread: counts(&self.unread),
            notes: self.notes.iter().map(note).collect(),
            ended: ended.or(limit).map(str::to_owned),
            limited: ended.is_none() && limit.is_some(),
        }
    }
}

fn count(counts: &mut BTreeMap<String, u64>, why: String) {
    let why = if counts.len() < MAX_REASONS || counts.contains_key(&why) { why } else { "others".to_owned() };
    *counts.entry(why).or_default() += 1;
}
