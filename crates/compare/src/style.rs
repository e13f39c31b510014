//! What a way of comparing has to say: columns, pairs, rows, verdicts.

use ulpscope_dump::{Error, Rank};
use ulpscope_formats::Fault;
use ulpscope_report::{Cell, Emphasis};

use crate::final_result::FinalResult;
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
    /// What the style wants to know of the unit when it concludes.
    pub(crate) observed: Option<Observed>,
    /// What became of the call, for styles that judge calls.
    pub class: Option<Class>,
    /// How the call introduced an error, for styles that judge calls.
    pub finding: Option<Finding>,
    /// The parameters and buffers that the call takes, and how far apart each is.
    pub(crate) origins: Vec<TakenOrigin>,
}

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The row that shows it, by its number in [`Judged::rows`].
    pub row: usize,
    /// What happened.
    pub kind: FindingKind,
    /// How the error came in.
    pub cause: FindingCause,
    /// The entry that shows it, by its name in the target, or in the golden where the target lacks it.
    pub entry: String,
    /// The evidence, in words.
    pub why: String,
    /// What was measured at the entry, in words; nothing where nothing was.
    pub seen: String,
    /// The precision that the error looks like, where it looks like one that is coarser than the dtype.
    pub looks_like: Option<Precision>,
    /// How sure this is, from 0 to 1.
    pub confidence: f64,
    /// How large the error is, where it was measured.
    pub measure: Option<Measure>,
    /// How many later calls inherited the error.
    pub downstream: u64,
    /// Whether the error came up in the backward pass.
    pub in_backward: bool,
}

/// How an error came in at a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FindingCause {
    /// The result is not what the arguments explain.
    Made,
    /// A sum of gradients is not what the calls that give it their portions explain.
    Sum,
    /// Plain arguments are others, and gradients alone show it: which, in words.
    ArgumentsInBackward(String),
    /// No gradient passes on this side.
    Cut(Side),
    /// Plain arguments are others: which, in words, such as `approximate="tanh" in the target only`.
    Arguments(String),
    /// An argument from outside is another.
    Origin,
    /// Random numbers are others.
    Draw,
    /// An argument is not what its maker gave.
    Between,
    /// Only one side makes the call, and what is computed from it is another.
    Lone(Side),
    /// Only one side makes the call, and what the step leaves in a parameter or a gradient is another: in which, as `parameter
    /// 0.weight`.
    Left(Side, String),
    /// The two take an argument from different calls.
    Wiring,
    /// It computes in a coarser dtype on one side, where the run does not.
    Cast,
    /// The result has another shape.
    Shape,
    /// It works on another shape, and what is computed from it is another.
    GivenShape,
    /// NaN or infinite on one side.
    NonFinite,
    /// NaN or infinite on both sides.
    BothNonFinite,
    /// The rule of an older tool, which knows no causes.
    Rule,
}

/// A precision that errors of float32 and finer dtypes may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Ten bits behind the point: TF32, or float16.
    Ten,
    /// Seven: bfloat16.
    Seven,
}

impl Precision {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Precision::Ten => "TF32 or float16",
            Precision::Seven => "bfloat16",
        }
    }
}

/// In what an error shows most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// In all elements together.
    Whole,
    /// In the worst element.
    WorstElement,
    /// In a factor that scales all elements alike.
    CommonFactor,
}

/// The size of an error, relative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The distance of the elements over the golden's norm: the row's `rel_l2`, where the row has one.
    pub distance: Option<f64>,
    /// In what the error shows most, and how many times as large as expected it is there.
    pub part: (Part, f64),
    /// The error, over the larger of the two norms.
    pub error: f64,
    /// What rounding and the arguments explain.
    pub floor: f64,
    /// Whether it was measured on what is computed from the call's results, and not on them.
    pub is_behind: bool,
    /// The largest error among the arguments.
    pub arguments: f64,
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
