//! The interface of a style: columns, pairs, rows, verdicts.

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Error, Rank};
use ulpscope_formats::Fault;
use ulpscope_report::{Cell, Emphasis};

use crate::fact::Fact;
use crate::final_result::FinalResult;
use crate::finding::Finding;
use crate::note::Note;
use crate::origins::TakenOrigin;
use crate::proof::Proving;
use crate::run::Progress;
use crate::verdict::Class;

/// An older style's message about a measured noise floor.
const NO_NOISE: &str = "--noise is for the native style: the older tools judge each row by fixed limits; use --style native, or leave it out";

/// Likewise about replay.
const NO_PROOF: &str = "--prove is for the native style: the older tools judge rows, and blame no call; use --style native, or leave it out";

/// A way of comparing two ranks.
pub trait Style: Sync {
    /// Decides what is compared with what. Reads names, and as much of the entries as pairing needs.
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error>;

    /// The same, with what is known besides the two ranks. The rules of the older tools support neither noise nor replay,
    /// and do not depend on the step.
    fn plan_knowing<'a>(
        &'a self,
        target: &'a Rank,
        golden: &'a Rank,
        known: Known<'a>,
        _progress: &dyn Progress,
    ) -> Result<Box<dyn Plan + 'a>, Error> {
        let unsupported = |why: &str| Err(Error::whole(Fault::Unsupported(why.to_owned())));
        match known {
            Known { noise: Some(_), .. } => unsupported(NO_NOISE),
            Known { proving: Some(_), .. } => unsupported(NO_PROOF),
            _ => self.plan(target, golden),
        }
    }

    /// The text for `advisor_{timestamp}.txt` about the first failing row, given its line in the csv (the header is
    /// line 1) and the name in its first column; `first_failing` is `None` if no row fails. Returns `None` for styles
    /// without advice.
    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String>;
}

/// What is known besides two ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// A second run of the golden, which shows how large noise is: differences between healthy runs are no findings.
    pub noise: Option<&'a Rank>,
    /// The number of the step.
    pub step: Option<u64>,
    /// Makes blamed calls again, to prove or refute what is said of them.
    pub proving: Option<Proving<'a>>,
}

/// What is compared with what, in the order of the rows.
pub trait Plan: Sync {
    /// The headings.
    fn columns(&self) -> Vec<String>;

    /// How many units there are: calls, or other groups of the style.
    fn units(&self) -> usize;

    /// Measures and judges a unit, on any thread and in any order. A unit that is judged again gives the same.
    fn judge(&self, unit: usize) -> Judged;

    /// Whether rows are kept until all units are known, because [`Conclusions::settle`] changes them.
    fn has_hindsight(&self) -> bool {
        false
    }

    /// What has no counterpart, on either side, in addition to [`Judged::partnerless`].
    fn partnerless(&self) -> Vec<Partnerless> {
        Vec::new()
    }

    /// Notes on how it was done: a mapping that matches nothing, a fallback mode.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Read errors of planning, as text, with file and place.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Ends judging: what follows from all units together.
    fn conclude<'p>(self: Box<Self>) -> Conclusions<'p>
    where
        Self: 'p,
    {
        Conclusions {
            partnerless: self.partnerless(),
            notes: self.notes().into_iter().map(Note::Text).collect(),
            problems: self.problems(),
            ..Conclusions::default()
        }
    }
}

/// Applies what follows from other units to the unit of this number.
pub type Settle<'p> = Box<dyn Fn(usize, &mut Judged) + Send + Sync + 'p>;

/// What follows from all units together.
pub struct Conclusions<'p> {
    /// Applies to a unit what follows from other units.
    pub settle: Settle<'p>,
    /// The final result that differs most, if by more than accumulated rounding allows.
    pub unexplained: Option<FinalResult>,
    /// Whether every final result was compared with what accumulated rounding allows.
    pub are_final_results_bounded: bool,
    /// Where final results differ by rounding and only their statistics are known: the relative error of elements below
    /// which nothing may show.
    pub hidden_error: Option<f64>,
    /// Final results that differ and were not judged, because inputs of the run differ.
    pub unjudged_final_results: u64,
    /// What has no counterpart, on either side, in addition to [`Judged::partnerless`].
    pub partnerless: Vec<Partnerless>,
    /// Notes on how it was done.
    pub notes: Vec<Note>,
    /// Read errors of planning, as text, with file and place.
    pub problems: Vec<String>,
}

impl Default for Conclusions<'_> {
    fn default() -> Self {
        Conclusions {
            settle: Box::new(|_, _| {}),
            unexplained: None,
            are_final_results_bounded: false,
            hidden_error: None,
            unjudged_final_results: 0,
            partnerless: Vec::new(),
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }
}

/// One of the two dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// What belongs to this side and to the other, the target's first.
    pub(crate) fn in_order<T>(self, own: T, other: T) -> [T; 2] {
        match self {
            Side::Target => [own, other],
            Side::Golden => [other, own],
        }
    }
}

/// A call, or an entry, that only one side has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partnerless {
    /// Which side has it.
    pub side: Side,
    /// Its name there.
    pub name: String,
    /// Why it has no counterpart.
    pub reason: String,
    /// Whether paired calls use its results, so that its effect is compared.
    pub is_joined: bool,
}

/// The rows of a unit.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    /// In order; empty if the style has no row for it.
    pub rows: Vec<Row>,
    /// The number of the target's call, if the unit is a call.
    pub target: Option<usize>,
    /// The same for the golden.
    pub golden: Option<usize>,
    /// How the two calls were paired, in a word; `None` if the style has only one way.
    pub how: Option<&'static str>,
    /// Entries of the unit without a counterpart.
    pub partnerless: Vec<Partnerless>,
    /// Rows of tensors that could not be judged: both sides are NaN, or share nothing that can be compared.
    pub undecided: u64,
    /// Bytes of tensors read, on both sides together.
    pub bytes: u64,
    /// Read errors, as text, with file and place.
    pub problems: Vec<String>,
    /// The class of the call, for styles that judge calls.
    pub class: Option<Class>,
    /// How the call introduced an error, for styles that judge calls.
    pub finding: Option<Finding>,
    /// What was said of the call until replay refuted it.
    pub refuted: Option<Finding>,
    /// The parameters and buffers that the call uses, and how much each differs.
    pub(crate) origins: Vec<TakenOrigin>,
}

/// A row of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One per column.
    pub cells: Vec<Cell>,
    /// Colour, if the output has colour.
    pub emphasis: Emphasis,
    /// The verdict of the style.
    pub verdict: Verdict,
    /// The observation at the entry, until it is converted to the text of the row.
    pub(crate) fact: Option<Box<Fact>>,
}

impl Row {
    /// A complete row: nothing is added later.
    pub fn new(cells: Vec<Cell>, emphasis: Emphasis, verdict: Verdict) -> Row {
        Row { cells, emphasis, verdict, fact: None }
    }
}

/// The verdict of a row, worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// In agreement.
    #[default]
    Pass,
    /// There was nothing to compare, or not enough: no counterpart, no data, a value without a distance.
    NotCompared,
    /// Worth a look.
    Warn,
    /// Not in agreement.
    Fail,
}
