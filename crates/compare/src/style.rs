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

    /// Measures and judges a unit. Called on any thread, in any order, once.
    fn judge(&self, unit: usize) -> Judged;

    /// Called for every unit in order, after [`Plan::judge`], for what follows from the units before it: `coarsest` is
    /// the coarsest limit so far, for styles that know limits.
    fn settle(&self, _judged: &mut Judged, _coarsest: &mut f64) {}

    /// What has no partner, on either side, beside what [`Judged::partnerless`] tells.
    fn partnerless(&self) -> Vec<Partnerless> {
        Vec::new()
    }

    /// What the user should know of how it was done: a mapping that matches nothing, a mode fallen back to.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What could not be read while planning, in words, with file and place.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One of the two dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// Under suspicion.
    Target,
    /// Trusted.
    Golden,
}

impl Side {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Side::Target => "target",
            Side::Golden => "golden",
        }
    }
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
    /// How the two calls were put together, in a word; nothing where the style has one way only, its own.
    pub how: Option<&'static str>,
    /// What of the unit has no partner.
    pub partnerless: Vec<Partnerless>,
    /// Rows of tensors that could not be judged: both sides are NaN, or have nothing in common to compare.
    pub undecided: u64,
    /// Bytes of tensors read, both sides counted.
    pub bytes: u64,
    /// What could not be read, in words, with file and place.
    pub problems: Vec<String>,
    /// What is wrong with the call, for styles that judge calls: one for each failing row, in order.
    pub findings: Vec<Finding>,
    /// The coarsest limit among the dtypes of the call, for styles that know limits.
    pub coarsest: f64,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The failing row, by its number in [`Judged::rows`].
    pub row: usize,
    /// The limit with which the row would not fail, for styles that know limits; nothing, where none is wide enough.
    pub needed: Option<f64>,
    /// The limit of the row's own dtypes.
    pub limit: f64,
    /// What happened.
    pub kind: FindingKind,
    /// The entry that shows it, by its name in the target, or in the golden where the target lacks it.
    pub entry: String,
    /// The evidence, in words.
    pub why: String,
    /// How sure this is, from 0 to 1.
    pub confidence: f64,
}

/// What happened at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// Inputs agree and outputs do not.
    DivergedHere,
    /// An argument, parameter or saved tensor differs that no earlier call is to blame for.
    OriginDiffers,
    /// Finite in, NaN or infinite out, on one side only.
    NonFiniteBornHere,
    /// Another shape or argument.
    DifferentProgram,
    /// A row fails by the rule of an older tool, which says no more than that.
    FailedRule,
}

impl FindingKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            FindingKind::DivergedHere => "diverged here",
            FindingKind::OriginDiffers => "origin differs",
            FindingKind::NonFiniteBornHere => "non-finite born here",
            FindingKind::DifferentProgram => "different program",
            FindingKind::FailedRule => "failed",
        }
    }
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
