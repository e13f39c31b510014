//! What a way of comparing has to say: columns, pairs, rows, verdicts.

use ulpscope_dump::{Error, Rank};
use ulpscope_report::{Cell, Emphasis};

/// A way of comparing two ranks.
pub trait Style: Sync {
    /// Decides what is compared with what. Reads names, and as much of the entries as pairing takes.
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error>;

    /// What to write into `advisor_{timestamp}.txt` about the first failing row, given its line in the csv (the
    /// header is line 1) and the name in its first column; nothing failing, where there is none. `None` for
    /// styles without advice.
    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String>;
}

/// What is compared with what, in the order of the rows.
pub trait Plan: Sync {
    /// The headings.
    fn columns(&self) -> Vec<String>;

    /// How many units there are: calls, or whatever the style keeps together.
    fn units(&self) -> usize;

    /// About how many bytes a unit reads, both sides counted: for the time left.
    fn bytes(&self, unit: usize) -> u64;

    /// Measures and judges a unit. Called on any thread, in any order, once.
    fn judge(&self, unit: usize) -> Judged;

    /// What has no partner, on either side.
    fn partnerless(&self) -> Vec<Partnerless>;
}

/// One of the two dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Under suspicion.
    Target,
    /// Trusted.
    Golden,
}

/// A call, or an entry, that only one side has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partnerless {
    /// Which side has it.
    pub side: Side,
    /// Its name there.
    pub name: String,
    /// Why nothing was found for it.
    pub reason: String,
}

/// The rows of a unit.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// In order; none, where the style has no row for it.
    pub rows: Vec<Row>,
    /// The number of the call on either side, where the unit is one.
    pub target: Option<usize>,
    /// Likewise.
    pub golden: Option<usize>,
    /// What could not be read, in words, with file and place.
    pub problems: Vec<String>,
}

/// A row of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One per column.
    pub cells: Vec<Cell>,
    /// Colour, where there is colour.
    pub emphasis: Emphasis,
    /// What the style thinks of it.
    pub verdict: Verdict,
}

/// What a style thinks of a row, worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// In agreement.
    #[default]
    Pass,
    /// There was nothing to compare, or not enough: no partner, no data, a value without a distance.
    NotCompared,
    /// Worth a look.
    Warn,
    /// Not in agreement.
    Fail,
}
