//! A finding: how a call introduced an error, with the numbers that show it. [`crate::words`] converts it to text for
//! rows; explanations convert it to sentences.
//!
//! ```text
//! detector ──► DetectedCause ──► FindingCause ──► text of a row (here), sentence in each language
//!                  CauseDetails ──┘        └──► CauseTraits: all that explanations ask besides
//! ```
//!
//! Everything that is known of a cause is in this file, in `match`es without wildcards, except for its sentences and
//! its detector.

use serde::{Deserialize, Serialize};

use crate::fact::{ArgumentDifference, Fact};
use crate::proof::{Proof, ProofVerdict};
use crate::region::Region;
use crate::sharded::ShardFault;
use crate::style::Side;
use crate::words;

/// What is wrong with a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The row that shows it, by its number in [`Judged::rows`](crate::Judged::rows).
    pub row: usize,
    /// What happened.
    pub kind: FindingKind,
    /// How the error was introduced.
    pub cause: FindingCause,
    /// The entry that shows it, by its name in the target, or in the golden if the target lacks it.
    pub entry: String,
    /// What was measured at the entry; `None` if nothing was.
    pub seen: Option<Fact>,
    /// The precision that the error looks like, if that is coarser than the dtype.
    pub looks_like: Option<Precision>,
    /// How sure this is, from 0 to 1.
    #[serde(with = "crate::number")]
    pub confidence: f64,
    /// How large the error is, where it was measured.
    pub measure: Option<Measure>,
    /// How many later calls inherited the error.
    pub downstream: u64,
    /// Whether the error appeared in the backward pass.
    pub in_backward: bool,
    /// What replay says of it; `None` if nothing was replayed.
    pub proof: Option<Proof>,
}

impl Finding {
    /// The evidence, as shown in a row.
    pub fn why(&self) -> String {
        words::evidence(self)
    }

    /// Adds what replay says. What was measured needs no model of noise.
    pub(crate) fn prove(&mut self, proof: Option<Proof>) {
        if proof.as_ref().is_some_and(|proof| matches!(proof.verdict, ProofVerdict::Proved(_))) {
            self.confidence = 1.0;
        }
        self.proof = proof;
    }
}

/// What a step leaves different in parameters and gradients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftDetails {
    /// The first of them: `parameter:0.weight`.
    pub name: String,
    /// How many differ.
    pub differ: u64,
    /// How many were compared.
    pub of: u64,
    /// Calls of the target and of the golden that update them.
    pub calls: [u64; 2],
    /// The calls that may have made the first differ, where both sides write into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Box<Region>>,
}

/// How a call introduced an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingCause {
    /// The arguments do not explain the result.
    Made,
    /// The contributions of its calls do not explain a sum of gradients.
    Sum,
    /// Scalar arguments differ, and only gradients show it.
    ArgumentsInBackward(Vec<ArgumentDifference>),
    /// No gradient flows on this side.
    Cut(Side),
    /// Scalar arguments differ.
    Arguments(Vec<ArgumentDifference>),
    /// A parameter, buffer or input differs.
    Origin,
    /// Random numbers differ.
    Draw,
    /// An argument is not what its producer returned.
    Between,
    /// Only one side makes the call, and what is computed from it differs.
    Lone(Side),
    /// Only one side makes the call, and what the step leaves in a parameter or a gradient differs: in which, as
    /// `parameter:0.weight`.
    Left(Side, String),
    /// The two sides update parameters in different ways, and what the step leaves in them differs.
    Updates(LeftDetails),
    /// The two sides get an argument from different calls.
    Wiring,
    /// It computes in a coarser dtype on one side, where the run does not.
    Cast,
    /// The result has a different shape.
    Shape,
    /// Its input has a different shape, and what is computed from it differs.
    GivenShape,
    /// NaN or infinite on one side.
    NonFinite,
    /// NaN or infinite on both sides.
    BothNonFinite,
    /// Two programs compute the same up to some values and not from others on; the calls between them differ.
    Region(Box<Region>),
    /// Ranks of a run that is compared with a single process do not have what they should.
    Sharded(Box<ShardFault>),
    /// The rule of an older tool, which knows no causes.
    Rule,
}

impl FindingCause {
    /// The calls of both sides that may have made the difference, where it is not one call that is known to.
    #[must_use]
    pub fn region(&self) -> Option<&Region> {
        match self {
            FindingCause::Region(region) => Some(region),
            FindingCause::Updates(LeftDetails { region, .. }) => region.as_deref(),
            _ => None,
        }
    }

    /// The text in rows before the numbers; empty if the numbers say it all.
    pub(crate) fn evidence(&self) -> String {
        match self {
            FindingCause::Made => String::new(),
            FindingCause::Sum => {
                "no recorded call explains it: left over (zero_grad), changed by a hook, or made unrecorded"
                    .to_owned()
            }
            FindingCause::ArgumentsInBackward(differences) => {
                let arguments = words::arguments(differences);
                format!("called with {arguments}, which shows only in the gradients")
            }
            FindingCause::Cut(side) => format!("no gradient passes it in the {}", side.word()),
            FindingCause::Arguments(differences) => format!("called with {}", words::arguments(differences)),
            FindingCause::Origin => "it is not the same in the two runs".to_owned(),
            FindingCause::Draw => "it draws different random numbers".to_owned(),
            FindingCause::Between => {
                "its producer agrees, so something that was not recorded changed it on the way".to_owned()
            }
            FindingCause::Lone(_) => {
                "only one side has this call, and what is computed from it differs".to_owned()
            }
            FindingCause::Left(_, name) => {
                let name = name.replacen(':', " ", 1);
                format!("only one side has this call, and what the step leaves in the {name} differs")
            }
            FindingCause::Updates(LeftDetails { name, differ, of, .. }) => {
                let name = name.replacen(':', " ", 1);
                format!(
                    "the two runs update parameters by different calls, and {differ} of {of} are left different, the \
                     first is the {name}"
                )
            }
            FindingCause::Wiring => "the two runs take it from different calls".to_owned(),
            FindingCause::Cast => "only one side computes it in a coarser dtype".to_owned(),
            FindingCause::Shape => "its inputs have the same shapes, its result does not".to_owned(),
            FindingCause::GivenShape => {
                "its input has a different shape, and what is computed from it differs".to_owned()
            }
            FindingCause::NonFinite => "none of its inputs has them".to_owned(),
            FindingCause::BothNonFinite => {
                "none of its inputs has them, and both runs fail in the same way".to_owned()
            }
            FindingCause::Region(region) => words::region(region),
            FindingCause::Sharded(fault) => fault.words(),
            FindingCause::Rule => "the first row that fails by the rule of this style".to_owned(),
        }
    }

    /// What explanations have to know of it besides its sentence.
    pub fn traits(&self) -> CauseTraits<'_> {
        let plain =
            CauseTraits { shows_in: ShowsIn::Results, only_side: None, remark: None, is_excess: false };
        match self {
            FindingCause::Made | FindingCause::Arguments(_) => CauseTraits { is_excess: true, ..plain },
            FindingCause::Sum => {
                CauseTraits { is_excess: true, remark: Some(CauseRemark::GradientLeftOver), ..plain }
            }
            FindingCause::ArgumentsInBackward(_) | FindingCause::Cut(_) => {
                CauseTraits { shows_in: ShowsIn::Gradients, ..plain }
            }
            FindingCause::Origin => CauseTraits { shows_in: ShowsIn::Origin, ..plain },
            FindingCause::Draw => CauseTraits { shows_in: ShowsIn::RandomNumbers, ..plain },
            FindingCause::Between => CauseTraits { remark: Some(CauseRemark::ChangedUnrecorded), ..plain },
            FindingCause::Lone(side) => {
                CauseTraits { only_side: Some(*side), remark: Some(CauseRemark::ResultsDiffer), ..plain }
            }
            FindingCause::Left(side, what) => CauseTraits {
                only_side: Some(*side),
                remark: Some(CauseRemark::LeftDiffering(what)),
                ..plain
            },
            FindingCause::Updates(_)
            | FindingCause::Wiring
            | FindingCause::Cast
            | FindingCause::Shape
            | FindingCause::GivenShape
            | FindingCause::NonFinite
            | FindingCause::BothNonFinite
            | FindingCause::Region(_)
            | FindingCause::Sharded(_)
            | FindingCause::Rule => plain,
        }
    }
}

/// What explanations have to know of a cause besides its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseTraits<'a> {
    /// Where the error shows.
    pub shows_in: ShowsIn,
    /// The only side that makes the call.
    pub only_side: Option<Side>,
    /// What is added to the sentence.
    pub remark: Option<CauseRemark<'a>>,
    /// Whether the error at the entry is compared with what rounding and the inputs allow.
    pub(crate) is_excess: bool,
}

/// Where the error of a cause shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowsIn {
    /// In the results of the call, or in what is computed from them.
    Results,
    /// In gradients alone.
    Gradients,
    /// In a tensor that no call produced.
    Origin,
    /// In random numbers. Their distance says nothing.
    RandomNumbers,
}

/// What is added to the sentence of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CauseRemark<'a> {
    /// Something that was not recorded changed the tensor.
    ChangedUnrecorded,
    /// What else may be in a sum of gradients.
    GradientLeftOver,
    /// What is computed from the call differs.
    ResultsDiffer,
    /// What the step leaves in this parameter or gradient differs.
    LeftDiffering(&'a str),
}

/// What a detector says of a call that introduced an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetectedCause {
    /// The arguments do not explain the result.
    Made,
    /// A scalar argument differs.
    Argument,
    /// An argument from outside differs.
    Origin,
    /// An argument is not what its producer returned.
    Between,
    /// Only one side makes the call, and what is computed from it differs.
    Lone,
    /// Only one side makes the call, and what the step leaves in a parameter differs.
    Left,
    /// The two sides update parameters in different ways, and what the step leaves in them differs.
    Updates,
    /// The two sides get an argument from different calls.
    Wiring,
    /// It computes in a coarser dtype on one side, where the run does not.
    Cast,
    /// Results have a different shape.
    Shape,
    /// NaN or infinite on one side.
    NonFinite,
    /// NaN or infinite on both sides.
    BothBroken,
    /// Random numbers differ.
    Draw,
    /// No gradient flows on one side.
    Cut,
    /// A scalar argument differs, and only gradients show it.
    ArgumentInBackward,
    /// Two programs part among some calls.
    Region,
}

/// What the rows of a call show, for causes that need it.
#[derive(Debug)]
pub(crate) struct CauseDetails {
    /// Whether the call is a sum of gradients.
    pub(crate) is_gradient_sum: bool,
    /// The scalar arguments that differ; `None` if none does.
    pub(crate) arguments: Option<Vec<ArgumentDifference>>,
    /// The side on which no gradient flows.
    pub(crate) cut_side: Side,
    /// The side of a call that the other lacks.
    pub(crate) lone_side: Side,
    /// What the step leaves differing.
    pub(crate) left: LeftDetails,
    /// Whether an input has a different shape.
    pub(crate) input_shape_differs: bool,
    /// The calls among which two programs part.
    pub(crate) region: Option<Region>,
}

impl DetectedCause {
    /// The cause with its details.
    pub(crate) fn complete(self, details: CauseDetails) -> FindingCause {
        match self {
            DetectedCause::Made if details.is_gradient_sum => FindingCause::Sum,
            DetectedCause::Made => FindingCause::Made,
            DetectedCause::Argument => details.arguments.map_or(FindingCause::Made, FindingCause::Arguments),
            DetectedCause::ArgumentInBackward => {
                details.arguments.map_or(FindingCause::Made, FindingCause::ArgumentsInBackward)
            }
            DetectedCause::Cut => FindingCause::Cut(details.cut_side),
            DetectedCause::Origin => FindingCause::Origin,
            DetectedCause::Cast => FindingCause::Cast,
            DetectedCause::Draw => FindingCause::Draw,
            DetectedCause::Between => FindingCause::Between,
            DetectedCause::Lone => FindingCause::Lone(details.lone_side),
            DetectedCause::Left => FindingCause::Left(details.lone_side, details.left.name),
            DetectedCause::Updates => FindingCause::Updates(details.left),
            DetectedCause::Wiring => FindingCause::Wiring,
            DetectedCause::Shape if details.input_shape_differs => FindingCause::GivenShape,
            DetectedCause::Shape => FindingCause::Shape,
            DetectedCause::NonFinite => FindingCause::NonFinite,
            DetectedCause::BothBroken => FindingCause::BothNonFinite,
            DetectedCause::Region => {
                details.region.map_or(FindingCause::Made, |region| FindingCause::Region(Box::new(region)))
            }
        }
    }
}

/// A precision that errors of float32 and finer dtypes may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// Ten bits after the point: TF32, or float16.
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

/// Where an error is largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// In all elements together.
    Whole,
    /// In the worst element.
    WorstElement,
    /// In a factor that scales all elements alike.
    CommonFactor,
}

/// The size of an error, relative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// The distance of the elements over the golden's norm: the row's `rel_l2`, if it has one.
    #[serde(with = "crate::number::optional")]
    pub distance: Option<f64>,
    /// Where the error is largest, and how many times as large as expected it is there.
    #[serde(with = "crate::number::second")]
    pub part: (Part, f64),
    /// The error, over the larger of the two norms.
    #[serde(with = "crate::number")]
    pub error: f64,
    /// What rounding and the arguments explain.
    #[serde(with = "crate::number")]
    pub floor: f64,
    /// Whether it was measured on values computed from the call's results, not on the results.
    pub is_behind: bool,
    /// The largest error among the arguments.
    #[serde(with = "crate::number")]
    pub arguments: f64,
}

/// What happened at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Inputs agree and outputs do not.
    DivergedHere,
    /// An argument, parameter or saved tensor differs, and no earlier call is to blame.
    OriginDiffers,
    /// Finite in, NaN or infinite out, on one side only.
    NonFiniteBornHere,
    /// A different shape or argument.
    DifferentProgram,
    /// A row fails by the rule of an older tool; nothing more is known.
    FailedRule,
}

impl FindingKind {
    /// Its name in files.
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
