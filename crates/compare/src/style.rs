//! What a way of comparing has to say: columns, pairs, rows, verdicts.

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Error, Rank};
use ulpscope_formats::Fault;
use ulpscope_report::{Cell, Emphasis};

use crate::fact::Fact;
use crate::final_result::FinalResult;
use crate::finding::Finding;
use crate::native::Observed;
use crate::origins::TakenOrigin;
use crate::run::Progress;
use crate::verdict::Class;

/// What an older tool's style says to a measured noise floor.
const NO_NOISE: &str = "--noise is for the native style: the older tools judge each row by fixed limits; use --style native, or leave it out";

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

    /// Measures a second golden run, so that what a healthy run is off by is no finding. Called once, before
    /// [`Plan::conclude`]. The rules of the older tools have no place for it.
    fn measure_noise(&self, _noise: &Rank, _progress: &dyn Progress) -> Result<(), Error> {
        Err(Error::whole(Fault::Unsupported(NO_NOISE.to_owned())))
    }

    /// Told before anything is judged which step this is, where it has a number.
    fn place_at_step(&self, _step: u64) {}

    /// Whether rows wait until all units are known: see [`Plan::conclude`].
    fn has_hindsight(&self) -> bool {
        false
    }

    /// Takes what every unit left for it in [`Judged::observed`], in order, once all have been judged.
    fn conclude(&self, _observed: Vec<Observed>) {}

    /// Called for every unit in order, after [`Plan::conclude`], for what follows from the other units.
    fn settle(&self, _unit: usize, _judged: &mut Judged) {}

    /// The final result that differs most, if by more than accumulated rounding allows. Asked after [`Plan::settle`].
    fn unexplained(&self) -> Option<FinalResult> {
        None
    }

    /// Whether every final result was compared with what accumulated rounding allows. Asked after [`Plan::settle`].
    fn are_final_results_bounded(&self) -> bool {
        false
    }

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
    /// Whether calls that both sides have work on what it gave, so that nothing is left unseen.
    pub is_joined: bool,
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
    /// How the two calls were paired, in a word; nothing where the style has one way only, its own.
    pub how: Option<&'static str>,
    /// What of the unit has no partner.
    pub partnerless: Vec<Partnerless>,
    /// Rows of tensors that could not be judged: both sides are NaN, or have nothing in common to compare.
    pub undecided: u64,
    /// Bytes of tensors read, both sides counted.
    pub bytes: u64,
    /// What could not be read, in words, with file and place.
    pub problems: Vec<String>,
    /// What the style wants to know of the unit when it concludes.
    pub(crate) observed: Option<Observed>,
    /// What became of the call, for styles that judge calls.
    pub class: Option<Class>,
    /// How the call introduced an error, for styles that judge calls.
    pub finding: Option<Finding>,
    /// The parameters and buffers that the call takes, and how far apart each is.
    pub(crate) origins: Vec<TakenOrigin>,
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
    /// What was seen at the entry, until the text of the row is made of it.
    pub(crate) fact: Option<Box<Fact>>,
}

impl Row {
    /// A row that is complete: nothing more will be said of it.
    pub fn new(cells: Vec<Cell>, emphasis: Emphasis, verdict: Verdict) -> Row {
        Row { cells, emphasis, verdict, fact: None }
    }
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
