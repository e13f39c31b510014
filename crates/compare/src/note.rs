//! Notes on how two runs were recorded and compared, as values: what a user should know beyond the verdict.
//!
//! `Display` is the English text, for sheets, JSON and standard error. Explanations have a text in each language.

use std::fmt;

use serde::{Deserialize, Serialize};
use ulpscope_report::{format_number, format_short};

use crate::style::Side;

/// A note. Paths and names of calls are part of it; texts that a dump or a mapping file contains stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Neither side has tensors.
    OnlyStatistics,
    /// Only one side has a backward pass.
    NoBackwardPass {
        /// The other one.
        side: Side,
    },
    /// Only one side has tensors.
    OneSideHasTensors,
    /// Tensors of a side on a different machine that were not moved: there were more than may be moved.
    TensorsNotMoved {
        /// The folder of the rank.
        path: String,
        /// How many.
        tensors: u64,
        /// Their size.
        bytes: u64,
        /// How many bytes may be moved.
        limit: u64,
    },
    /// A side has names and no values.
    OnlyNames,
    /// The two sides were captured at different levels.
    LevelsDiffer {
        /// The target's.
        target: String,
        /// The golden's.
        golden: String,
    },
    /// Final results differ, and were not judged.
    FinalResultsNotJudged {
        /// The first of them.
        first: String,
        /// How many more.
        more: u64,
    },
    /// An input has different sizes in the two runs: a different batch, length or padding.
    InputsCutDifferently {
        /// The entry that shows it in the target.
        target: String,
        /// Likewise in the golden.
        golden: String,
        /// The dimensions that differ, with their sizes in the target and in the golden.
        sizes: Vec<(u64, [u64; 2])>,
        /// Which part of one the other is, where content tells.
        #[serde(default)]
        part: Option<InputPart>,
    },
    /// What was compared of inputs that are cut differently, in the part that both runs have.
    PartsCompared {
        /// Results of calls that compute from a parameter and agree.
        agree: u64,
        /// Those that differ.
        differ: u64,
        /// The last call that agrees before the first that does not.
        last_agreeing: Option<String>,
        /// The first call that differs.
        first_differing: Option<String>,
    },
    /// The two programs have next to nothing in common.
    NothingInCommon {
        /// Parameters of the target and of the golden.
        parameters: [u64; 2],
        /// Those that have the same content.
        same: u64,
    },
    /// Results are NaN or infinite on one side only.
    NonFiniteOnOneSide {
        /// The side.
        side: Side,
        /// The first such result.
        first: String,
    },
    /// The two programs make different calls, and their final results agree.
    DifferentPrograms {
        /// Calls without a counterpart, of the target and of the golden.
        unpaired: [u64; 2],
        /// All their calls of the forward pass.
        calls: [u64; 2],
        /// Calls of the target that return the final results.
        results: Vec<String>,
        /// How many more.
        more: u64,
    },
    /// Final results differ at positions that a mask of the inputs leaves out as padding, and agree at all others.
    PaddingDiffers,
    /// Parameters differ in content, and final results agree: concatenated, merged or folded weights.
    OtherWeights {
        /// How many of the target have no counterpart.
        target: u64,
        /// How many of the golden.
        golden: u64,
        /// The first of them.
        first: String,
        /// The side that has it.
        side: Side,
    },
    /// The two runs compute the same in different ways.
    DifferentWays {
        /// The call from which on.
        begin: String,
        /// The call at which they agree again.
        end: String,
    },
    /// The same, at so many more places.
    MoreDifferentWays(u64),
    /// Calls of one side that nothing else depends on, such as a logged norm.
    SideBranches {
        /// The side that has them.
        side: Side,
        /// How many.
        calls: u64,
        /// The first.
        first: String,
    },
    /// Scalar arguments differ, without an effect.
    ArgumentsWithoutEffect {
        /// Calls.
        calls: u64,
        /// The first.
        first: String,
    },
    /// Results have different dtypes.
    DtypesDiffer {
        /// Calls.
        calls: u64,
        /// One of them.
        example: String,
        /// Its dtype in the target.
        target: String,
        /// Its dtype in the golden.
        golden: String,
    },
    /// A parameter, buffer or input that one side has in a coarser dtype, and a function that makes its rounding much larger.
    RoundingAmplified {
        /// Which, as the dump says: `buffer:rotary.inv_freq`.
        origin: String,
        /// Its relative error.
        #[serde(with = "crate::number")]
        error: f64,
        /// The call.
        call: String,
        /// The relative error of its result.
        #[serde(with = "crate::number")]
        result: f64,
    },
    /// A run did not reach the end of its step.
    Killed {
        /// The dump.
        path: String,
    },
    /// Capture ended before the run.
    EndedEarly {
        /// The dump.
        path: String,
        /// Why, as the dump says.
        why: String,
    },
    /// Capture could not record calls.
    CallsNotRecorded {
        /// The dump.
        path: String,
        /// How many.
        calls: u64,
        /// Which.
        which: String,
    },
    /// Capture could not read tensors.
    TensorsNotRead {
        /// The dump.
        path: String,
        /// How many.
        tensors: u64,
        /// Why, as the dump says.
        why: String,
    },
    /// The ledgers of the two runs disagree.
    CountsDiffer {
        /// The dumps of the target and of the golden.
        paths: [String; 2],
        /// The first counts that disagree.
        counts: Vec<CountDifference>,
        /// How many more disagree.
        more: u64,
    },
    /// The capture of one side noted something.
    CaptureNotes {
        /// Its dump.
        path: String,
        /// What, as the dump says.
        notes: String,
    },
    /// The noise floor.
    NoiseFloor {
        /// The noise dump.
        path: String,
        /// Calls that were measured.
        measured: u64,
        /// Calls of the golden.
        calls: u64,
        /// The median of the relative error.
        #[serde(with = "crate::number")]
        median: f64,
        /// The largest.
        #[serde(with = "crate::number")]
        largest: f64,
        /// The call that has it.
        at: Option<String>,
    },
    /// Calls that the noise dump does not have.
    NoiseLacksCalls {
        /// How many.
        lacking: u64,
        /// Calls of the golden.
        calls: u64,
    },
    /// The noise dump shows no noise.
    NoiseIsZero,
    /// Calls that differ by more than half of their size in the noise dump.
    NoiseIsLarge {
        /// How many.
        calls: u64,
        /// Whether that is most of them.
        is_most: bool,
    },
    /// Noise that was measured by statistics.
    NoiseByStatistics {
        /// Tensors.
        tensors: u64,
        /// All tensors.
        of: u64,
    },
    /// Tensors that are NaN or infinite on one side of the noise measurement.
    NoiseNonFinite(u64),
    /// The words of a dump, of a mapping file, or of an older tool's style.
    Text(String),
}

/// The part that two inputs have in common, in brackets as in Python: `[:, 0:12]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputPart {
    /// The part of the target's; `None` if it is all of it.
    pub target: Option<String>,
    /// Likewise of the golden's. `None` on both sides: the same elements in a different shape.
    pub golden: Option<String>,
    /// How many pieces the target and the golden are given.
    pub pieces: [u64; 2],
    /// The part that the last piece is, where there are several.
    pub last: Option<String>,
}

impl InputPart {
    /// In English, with the names of the two inputs.
    fn words(&self, target: &str, golden: &str) -> String {
        let part = match (&self.target, &self.golden) {
            (None, None) => {
                format!("{target} of the target has the elements of {golden} of the golden in another shape")
            }
            (None, Some(part)) => format!("{target} of the target is {part} of {golden} of the golden"),
            (Some(part), None) => format!("{golden} of the golden is {part} of {target} of the target"),
            (Some(ours), Some(theirs)) => {
                format!("{ours} of {target} of the target is {theirs} of {golden} of the golden")
            }
        };
        let last = self.last.as_ref().map(|last| {
            let [target, golden] = self.pieces;
            format!(", and so on up to {last} ({target} pieces in the target, {golden} in the golden)")
        });
        format!("{part}{}", last.unwrap_or_default())
    }
}

/// A count in which two ledgers disagree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountDifference {
    /// What was counted.
    pub counted: Counted,
    /// In the target.
    pub target: u64,
    /// In the golden.
    pub golden: u64,
}

/// What a ledger counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Calls that were seen.
    Seen,
    /// Calls that were recorded.
    Recorded,
    /// Calls that were skipped, for this reason.
    Skipped(String),
}

/// `dimension 1 is 12 against 16`.
fn dimensions(sizes: &[(u64, [u64; 2])]) -> String {
    let said = sizes
        .iter()
        .map(|(dimension, [target, golden])| format!("dimension {dimension} is {target} against {golden}"));
    said.collect::<Vec<String>>().join(", ")
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::OnlyStatistics => f.write_str(
                "compared by statistics or digests only, as no tensors were dumped: reordered elements do not show",
            ),
            Note::NoBackwardPass { side } => write!(
                f,
                "the {} has no backward pass: gradients, and what follows from them, were not compared",
                side.word()
            ),
            Note::OneSideHasTensors => f.write_str("only one side has tensors: compared by statistics"),
            Note::TensorsNotMoved { path, tensors, bytes, limit } => write!(
                f,
                "{path}: {} ({bytes} bytes) of a different node {} compared by recorded statistics only, as no more than \
                 {limit} bytes may be moved for a rank: raise --move-limit to compare their elements",
                counted(*tensors, "tensor"),
                if *tensors == 1 { "was" } else { "were" }
            ),
            Note::OnlyNames => f.write_str("a dump of structure holds no values: only the calls were compared"),
            Note::LevelsDiffer { target, golden } => write!(
                f,
                "the target was captured at level {target}, the golden at level {golden}: what one level leaves out has no \
                 counterpart; capture both sides at the same level"
            ),
            Note::FinalResultsNotJudged { first, more: 0 } => {
                write!(f, "the final result {first} differs and was not judged: inputs it follows from differ")
            }
            Note::FinalResultsNotJudged { first, more } => write!(
                f,
                "the final result {first} and {more} more differ and were not judged: inputs they follow from differ"
            ),
            Note::InputsCutDifferently { target, golden, sizes, part: Some(part) } => write!(
                f,
                "the inputs are cut differently ({}): {}. Only the part that both have is compared",
                dimensions(sizes),
                part.words(target, golden)
            ),
            Note::InputsCutDifferently { target, golden, sizes, part: None } => {
                let golden = if golden == target { "the golden".to_owned() } else { format!("{golden} of the golden") };
                write!(f, "the input {target} has other sizes than in {golden}: {}. ", dimensions(sizes))?;
                f.write_str(
                    "Batches, sequence lengths or padding differ, so only the part that both have can agree. Which part that \
                     is does not show in what was recorded",
                )
            }
            Note::PartsCompared { agree, differ: 0, .. } => {
                write!(f, "in this part, all {agree} results agree that were compared: those of calls with parameters")
            }
            Note::PartsCompared { agree, differ, last_agreeing, first_differing } => {
                let last = last_agreeing.as_deref().unwrap_or("the inputs");
                let first = first_differing.as_deref().unwrap_or_default();
                write!(
                    f,
                    "in this part, {differ} of {} results of calls with parameters differ. They agree up to {last}; the first \
                     that differs is that of {first}",
                    agree + differ
                )
            }
            Note::NothingInCommon { parameters: [target, golden], same } => write!(
                f,
                "the two programs share almost nothing that could be matched ({same} of {target} parameters of the target and \
                 {golden} of the golden have the same content), so no call can be compared: check that both are the same \
                 model with the same weights"
            ),
            Note::NonFiniteOnOneSide { side, first } => {
                write!(f, "the {} alone has NaN or infinite values; the first are in {first}", side.word())
            }
            Note::DifferentPrograms { unpaired, calls, results, more } => {
                write!(
                    f,
                    "the two programs make different calls ({} of {} in the target and {} of {} in the golden have no \
                     counterpart); their final results agree: {}",
                    unpaired[0],
                    calls[0],
                    unpaired[1],
                    calls[1],
                    results.join(", ")
                )?;
                if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            Note::PaddingDiffers => f.write_str(
                "the final results differ at positions that a mask among the inputs leaves out as padding; they agree at all \
                 others",
            ),
            Note::OtherWeights { target, golden, first, side } => write!(
                f,
                "{} of the target and {golden} of the golden have no counterpart of the same content (the first: {first} of \
                 the {}), but the final results agree: other weights, same function",
                counted(*target, "parameter"),
                side.word()
            ),
            Note::DifferentWays { begin, end } => write!(
                f,
                "the two runs compute the same in different ways from {begin} on, and agree again at {end}: what lies \
                 between was not judged"
            ),
            Note::MoreDifferentWays(more) => {
                let places = counted(*more, "more place");
                write!(f, "and in {places} the two runs compute the same in different ways")
            }
            Note::SideBranches { side, calls, first } => write!(
                f,
                "the {} alone makes {}, whose results nothing else uses; the first is {first}",
                side.word(),
                counted(*calls, "call")
            ),
            Note::ArgumentsWithoutEffect { calls, first } => write!(
                f,
                "{} different scalar arguments, but the results differ by no more than rounding and the inputs allow; \
                 the first is {first}",
                verb(*calls, "gets", "get")
            ),
            Note::DtypesDiffer { calls, example, target, golden } => write!(
                f,
                "{} a different dtype from the golden's, such as {example} ({target} against {golden}); errors are \
                 compared with the rounding of the coarser one",
                verb(*calls, "returns", "return")
            ),
            Note::RoundingAmplified { origin, error, call, result } => write!(
                f,
                "{} has a coarser dtype on one side and differs by {}; {call} turns this into {}, as such functions do. \
                 Keep it in float32",
                origin.replacen(':', " ", 1),
                format_short(*error),
                format_short(*result)
            ),
            Note::Killed { path } => write!(
                f,
                "{path}: the run was killed before the step was over, or is still going: this is what it had recorded"
            ),
            Note::EndedEarly { path, why } => {
                write!(f, "{path}: capture ended early, so later calls are missing: {why}")
            }
            Note::CallsNotRecorded { path, calls, which } => {
                write!(f, "{path}: {} could not be recorded: {which}", counted(*calls, "call"))
            }
            Note::TensorsNotRead { path, tensors, why } => {
                write!(f, "{path}: {} could not be read: {why}", counted(*tensors, "tensor"))
            }
            Note::CountsDiffer { paths: [target, golden], counts, more } => {
                let counts = counts.iter().map(|one| {
                    let CountDifference { counted, target, golden } = one;
                    format!("{counted} {target} against {golden}")
                });
                let more = (*more > 0).then(|| format!("and {more} more"));
                write!(
                    f,
                    "{target} and {golden}: the two runs did not make the same calls: {}. See what has no counterpart, or \
                     whether both sides were captured with the same selection",
                    counts.chain(more).collect::<Vec<String>>().join("; ")
                )
            }
            Note::CaptureNotes { path, notes } => {
                write!(f, "{path}: only this side's capture reports: {notes}")
            }
            Note::NoiseFloor { path, measured, calls, median, largest, at } => {
                let at = at.as_ref().map(|call| format!(" at {call}")).unwrap_or_default();
                write!(
                    f,
                    "noise floor measured by --noise {path} at {measured} of {calls} calls of the golden: relative error {} in \
                     the median, {} at most{at}; twice that is allowed for",
                    format_number(*median),
                    format_number(*largest)
                )
            }
            Note::NoiseLacksCalls { lacking, calls } => write!(
                f,
                "--noise: {lacking} of {calls} calls of the golden are not in the noise dump, or hold no numbers there, and \
                 are judged without it: is it a run of the same program, at the same level?"
            ),
            Note::NoiseIsZero => f.write_str(
                "--noise: the noise dump is equal to the golden bit for bit, so it shows no noise: record it with a \
                 different kernel or thread count, or with jitter",
            ),
            Note::NoiseIsLarge { calls, is_most } => {
                let doubt = if *is_most { ": was it recorded with the same weights and data?" } else { "" };
                write!(
                    f,
                    "--noise: {calls} calls of the noise dump differ by more than half of their size, and smaller faults \
                     there cannot be distinguished from noise{doubt}"
                )
            }
            Note::NoiseByStatistics { tensors, of } => write!(
                f,
                "--noise: {tensors} of {of} tensors were measured by statistics only, which show less noise than there is"
            ),
            Note::NoiseNonFinite(tensors) => write!(
                f,
                "--noise: {tensors} tensors are NaN or infinite in the noise dump or in the golden only, and show no noise"
            ),
            Note::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Counted::Seen => f.write_str("calls seen"),
            Counted::Recorded => f.write_str("recorded"),
            Counted::Skipped(reason) => write!(f, "skipped ({reason})"),
        }
    }
}

fn verb(calls: u64, one: &str, many: &str) -> String {
    if calls == 1 { format!("1 call {one}") } else { format!("{calls} calls {many}") }
}

fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
