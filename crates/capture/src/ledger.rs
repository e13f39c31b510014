//! Counts every call and its outcome: nothing is missed silently.

use std::collections::BTreeMap;

use ulpscope_dump::ModelResults;

/// Different failure reasons kept; further ones are counted together.
const MAX_REASONS: usize = 100;

/// Results of models that are kept; of a step with more, none are: they would make a ledger that nobody reads.
const MAX_RESULTS: usize = 10_000;

/// Why a call was left out that had no outcome when the ledger was written: another thread was about to record it.
const OVERTAKEN: &str = "began as the step ended";

/// Why a call was left out: the settings do not select it.
pub const NOT_SELECTED: &str = "not selected";

/// Why a call was left out: another of the repeated layers is recorded.
pub const IN_REPEATED: &str = "in a repeated layer";

/// Why the call of a module was left out: it is not part of the model.
pub const OUTSIDE: &str = "outside the model";

/// Why a call was left out: it queries a tensor and computes nothing.
pub const METADATA: &str = "metadata";

/// Reasons to leave out a call and not even watch its backward call.
const WITH_BACKWARD: [&str; 3] = [IN_REPEATED, OVER_CALLS, OVER_BYTES];

/// Why a call was left out: the limit of calls is reached.
pub const OVER_CALLS: &str = "over max_calls";

/// Why a call was left out: the limit of bytes is reached.
pub const OVER_BYTES: &str = "over max_bytes";

/// Why a call whose arguments are in the dump does not count as recorded: there was no room for its results.
pub const RESULTS_OVER_BYTES: &str = "results over max_bytes";

/// Why a checked call was left out: its results are finite, and below the largest number of their dtype.
const IN_RANGE: &str = "in range";

/// Why a checked call was left out: it only passes NaN on, and so did one before it.
pub const PASSED_NAN: &str = "passed NaN on";

/// Why a call was left out: it returned NaN or infinity, and an input could not be read.
pub const ORIGIN_UNKNOWN: &str = "origin unknown";

/// Why a checked call was left out: it only passes infinity on.
pub const PASSED_INFINITY: &str = "passed infinity on";

/// Why a checked call was left out: it returned the largest number of its dtype, and so did one before it.
pub const SATURATED: &str = "saturated";

/// Why a checked call was not written: its values were on a device, which showed it when the call had returned.
pub const ON_DEVICE: &str = "found on a device";

/// Why a tensor has no statistics: its device did not give them.
pub const NOT_ARRIVED: &str = "its numbers did not arrive from its device";

/// Why a backward call was left out: its call is in a graph that was captured, and it is not, or the other way round.
pub const ACROSS_GRAPH: &str = "partly in a captured graph";

/// Why a value was left out that no call returned.
pub const WITHIN_GRAPH: &str = "saved within a captured graph";

/// Why a backward call of a replayed graph was left out: that with its call was not replayed in the step.
const NOT_REPLAYED: &str = "its call is in a graph that was not replayed in this step";

/// Counts of one rank in one step.
#[derive(Debug, Default)]
pub struct StepLedger {
    seen: u64,
    /// Calls in the journal that have not raised.
    recorded: u64,
    /// Checked calls that were left out as in range: there may be thousands in each step.
    pub in_range: u64,
    /// Calls in the journal, also those that raised or whose results could not be recorded.
    begun: u64,
    raised: BTreeMap<String, u64>,
    skipped: BTreeMap<&'static str, u64>,
    failed: BTreeMap<String, u64>,
    unread: BTreeMap<String, u64>,
    notes: BTreeMap<String, u64>,
    returned: Vec<ModelResults>,
    /// How many results these have, and further ones.
    results: usize,
}

impl StepLedger {
    /// Counts a call before anything else. It is then recorded, left out, or fails.
    pub fn meet(&mut self) {
        self.seen += 1;
    }

    /// Counts a call that was written to the journal.
    pub fn record(&mut self) {
        self.recorded += 1;
        self.begun += 1;
    }

    /// How many calls are recorded.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Counts a recorded call as not recorded: its results are missing. It stays in the journal.
    pub fn take_back(&mut self) {
        self.recorded = self.recorded.saturating_sub(1);
    }

    /// Counts a call as left out on purpose.
    pub fn skip(&mut self, why: &'static str) {
        *self.skipped.entry(why).or_default() += 1;
    }

    /// Counts a recorded call as raised: it has no results.
    pub fn raise(&mut self, why: String) {
        self.take_back();
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

    /// Adds a note. A repeated note is kept once, with its count.
    pub fn note(&mut self, text: String) {
        count(&mut self.notes, text);
    }

    /// Adds a note that is kept once, without a count.
    pub fn note_once(&mut self, text: &str) {
        self.notes.insert(text.to_owned(), 1);
    }

    /// Adds what a model returned.
    pub fn returned(&mut self, results: Vec<(String, Option<String>)>) {
        // A call without tensors counts, too.
        self.results += results.len().max(1);
        if self.results > MAX_RESULTS {
            self.returned.clear();
            return;
        }
        self.returned.push(ModelResults { calls: self.begun, results });
    }

    /// Adds the counts of a graph that was replayed. `left_out` of its calls were not written; `name` gives the names
    /// of its calls in this replay.
    pub(crate) fn add_replay(
        &mut self,
        graph: &StepLedger,
        left_out: u64,
        name: impl Fn(&str) -> Option<String>,
    ) {
        for ModelResults { calls, results } in &graph.returned {
            self.results += results.len().max(1);
            let named = |(path, source): &(String, Option<String>)| {
                let path = name(path).unwrap_or_else(|| path.clone());
                (path, source.as_deref().and_then(&name))
            };
            let results = results.iter().map(named).collect();
            self.returned.push(ModelResults { calls: self.begun + calls, results });
        }
        if self.results > MAX_RESULTS {
            self.returned.clear();
        }
        self.seen += graph.seen;
        self.recorded += graph.recorded.saturating_sub(left_out);
        self.begun += graph.begun.saturating_sub(left_out);
        if left_out > 0 {
            *self.skipped.entry(NOT_REPLAYED).or_default() += left_out;
        }
        self.add_remarks(graph, name);
    }

    /// Counts the calls of a graph that was replayed as left out.
    pub(crate) fn leave_out_replay(&mut self, graph: &StepLedger, why: &'static str) {
        self.seen += graph.seen;
        *self.skipped.entry(why).or_default() += graph.recorded;
        self.add_remarks(graph, |_| None);
    }

    fn add_remarks(&mut self, graph: &StepLedger, name: impl Fn(&str) -> Option<String>) {
        for (why, count) in &graph.skipped {
            *self.skipped.entry(why).or_default() += count;
        }
        let counts = [
            (&mut self.raised, &graph.raised),
            (&mut self.failed, &graph.failed),
            (&mut self.unread, &graph.unread),
            (&mut self.notes, &graph.notes),
        ];
        for (own, added) in counts {
            for (why, count) in added {
                *own.entry(name(why).unwrap_or_else(|| why.clone())).or_default() += count;
            }
        }
    }

    /// Calls without an outcome: not recorded, left out, raised or failed.
    fn overtaken(&self) -> u64 {
        let left_out = self.recorded + self.in_range;
        let others = self.raised.values().chain(self.skipped.values()).chain(self.failed.values());
        self.seen.saturating_sub(left_out + others.sum::<u64>())
    }

    /// Whether calls were left out for a reason that also applies to their backward calls.
    pub fn has_left_out(&self) -> bool {
        WITH_BACKWARD.iter().any(|why| self.skipped.contains_key(why))
    }

    /// Whether a call was met.
    pub fn has_seen(&self) -> bool {
        self.seen > 0
    }

    /// Whether there is more to report than counts of calls.
    pub fn has_remarks(&self) -> bool {
        let counts = [&self.raised, &self.failed, &self.unread, &self.notes];
        counts.iter().any(|counts| !counts.is_empty())
    }

    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.seen == 0 && self.notes.is_empty()
    }

    /// The report so far, with the error or else the limit that ended recording early.
    pub fn report(&self, ended: Option<&str>, limit: Option<&str>) -> ulpscope_dump::Ledger {
        let counts = |counts: &BTreeMap<String, u64>| {
            counts.iter().map(|(why, count)| (why.clone(), *count)).collect::<Vec<_>>()
        };
        let mut skipped = self.skipped.clone();
        if self.in_range > 0 {
            skipped.insert(IN_RANGE, self.in_range);
        }
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
            returned: self.returned.clone(),
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
