//! The sentences of an explanation as values: [`crate::words`] converts them to text, in any language.
//!
//! They are kept in `result.json`, so that a result can be explained in a different language later. The names of the
//! variants are part of that file's format.

use serde::{Deserialize, Serialize};
use ulpscope_compare::{
    Agreement, ArgumentDifference, Fact, FindingCause, FindingKind, Note, Part, Precision, Proof, Share, Side,
};

use crate::instruction::Instruction;
use crate::region::RegionStatement;

/// A part of an explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Section {
    /// What it is about.
    pub heading: Heading,
    /// What is said.
    pub statements: Vec<Statement>,
}

/// What a section is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heading {
    /// The cause.
    WhatBroke,
    /// The call, its module and its code.
    Where,
    /// Calls of the target among which two programs part.
    BetweenInTarget,
    /// Likewise of the golden.
    BetweenInGolden,
    /// The error, and what it is compared with.
    HowLarge,
    /// What inherited the error.
    Downstream,
    /// How sure it is.
    Confidence,
    /// Calls that introduced other errors.
    OtherDivergences,
    /// What was compared, where nothing broke.
    Compared,
    /// What counts as rounding.
    Tolerance,
    /// What could not be seen.
    Limitations,
    /// What to do.
    Next,
    /// What a result by an older tool's rule means.
    Rule,
}

/// One sentence, or one line of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// The forward passes agree; only one side has a backward pass.
    ForwardPassesAgree,
    /// The two runs agree.
    RunsAgree,
    /// No call of this rank introduced an error; one of another rank did.
    NoErrorOnThisRank,
    /// No verdict: why.
    Inconclusive(Agreement),
    /// Most calls could not be judged one by one.
    MostNotJudged {
        /// How many could not.
        calls: u64,
        /// All calls; two that are paired count as one.
        of: u64,
    },
    /// The call that adds most to the error of a final result.
    LargestStep {
        /// Its name.
        call: String,
        /// The largest relative error of its inputs.
        #[serde(with = "ulpscope_compare::number")]
        inputs: f64,
        /// The relative error of its output.
        #[serde(with = "ulpscope_compare::number")]
        output: f64,
    },
    /// Tensors that belong to no call differ.
    TensorsDiffer {
        /// How many.
        differ: u64,
        /// All that were compared.
        of: u64,
        /// The one that differs most; empty, if it has no name.
        most: String,
        /// If not all that differ were looked at for it: how many of them, from the first on.
        among: Option<u64>,
    },
    /// How the error was introduced.
    Cause(Box<Cause>),
    /// Something that was not recorded changed a tensor.
    ChangedUnrecorded,
    /// How a gradient's sum may come to differ.
    GradientLeftOver,
    /// What is computed from a call differs.
    ResultsDiffer,
    /// What a step leaves in a parameter or gradient differs.
    LeftDiffering {
        /// `parameter` or `gradient`, a colon and its name.
        what: String,
    },
    /// How many parameters and buffers differ.
    OriginsCounted {
        /// Parameters: those that differ, and all.
        parameters: [u64; 2],
        /// Buffers, likewise.
        buffers: [u64; 2],
    },
    /// Why no call is to blame for what differs.
    OriginHistory {
        /// Why.
        history: History,
        /// The first call that shows it.
        call: String,
    },
    /// A call on one side only, just before.
    JustBefore {
        /// The call.
        call: String,
        /// The side.
        side: Side,
    },
    /// More of the same kind and cause.
    Likewise(Likewise),
    /// The two sides were captured at different levels.
    LevelsDiffer {
        /// The target's.
        target: String,
        /// The golden's.
        golden: String,
    },
    /// Calls and entries that only one side has.
    OnlyIn {
        /// The side.
        side: Side,
        /// How many.
        count: UnpairedCount,
        /// The operations that occur most, with their number.
        operations: Vec<(String, u64)>,
        /// Whether there are other operations.
        has_more: bool,
    },
    /// Steps or ranks that only one side has.
    RanksUnpaired(u64),

    /// The call that introduced the error.
    Call {
        /// Its name.
        name: String,
        /// The pass it belongs to.
        pass: Pass,
    },
    /// The training step.
    Step(u64),
    /// The rank.
    Rank(String),
    /// The call in the golden.
    GoldenCall(String),
    /// The module.
    Module(String),
    /// The line of the user's code.
    Code(String),
    /// The innermost line outside of torch, if it is a different one.
    InnerCode(String),
    /// The line of code in the golden, the user's or a library's.
    GoldenCode(String),
    /// The entry that shows it.
    Entry {
        /// Its name.
        name: String,
        /// The line of the sheet.
        line: u64,
        /// The file name of the sheet, if one was written.
        #[serde(default)]
        sheet: Option<String>,
    },

    /// Where two programs part.
    Region(RegionStatement),

    /// What was measured.
    Measured(Fact),
    /// The precision that the error looks like.
    LooksLike(Precision),
    /// How far apart parameters and inputs typically are.
    OriginsTypically {
        /// The relative distance.
        #[serde(with = "ulpscope_compare::number")]
        floor: f64,
    },
    /// The error, compared with what rounding and the inputs allow.
    Excess {
        /// What was measured.
        of: Measured,
        /// Its relative distance.
        #[serde(with = "ulpscope_compare::number")]
        distance: f64,
        /// What rounding and the inputs allow.
        #[serde(with = "ulpscope_compare::number")]
        floor: f64,
    },
    /// Where the error is largest.
    ShowsMost {
        /// The part.
        part: Part,
        /// Whether only statistics were measured.
        by_statistics: bool,
        /// How many times what rounding and the inputs allow.
        #[serde(with = "ulpscope_compare::number")]
        times: f64,
    },
    /// The inputs are equal.
    InputsAgree,
    /// The inputs differ.
    InputsDiffer {
        /// The largest relative distance among them.
        #[serde(with = "ulpscope_compare::number")]
        largest: f64,
    },

    /// What replay says of a call.
    Proof {
        /// The call; `None`: the one that is explained.
        call: Option<String>,
        /// What it says.
        proof: Proof,
    },
    /// So many findings were refuted, and nothing is left that explains the difference.
    NoReplayableCall(u64),

    /// No later call inherited the error.
    NotInherited,
    /// Other calls differ; it is not known whether they inherited it.
    OthersDiffer(u64),
    /// Later calls inherited the error.
    Inherited {
        /// How many.
        calls: u64,
        /// How many in the forward pass and in the backward pass, where that is known.
        by_pass: Option<[u64; 2]>,
    },
    /// The error reaches something that matters.
    Reaches {
        /// What.
        what: Reached,
        /// Whether it is this error; otherwise it may be another one.
        is_this: bool,
    },

    /// From 0 to 1.
    Confidence(#[serde(with = "ulpscope_compare::number")] f64),

    /// Another divergence.
    OtherDivergence {
        /// The call.
        call: String,
        /// What happened there.
        kind: FindingKind,
        /// Why.
        reason: Reason,
        /// More of the same.
        likewise: Option<Likewise>,
    },
    /// Another tensor that differs.
    OtherTensor {
        /// Its name.
        name: String,
        /// Why.
        reason: Reason,
    },
    /// More are in the result file.
    MoreDivergences(u64),
    /// The first divergence of other steps or ranks.
    OtherRanks {
        /// Their names.
        ranks: Vec<String>,
        /// How many more there are.
        more: u64,
        /// The call.
        call: String,
        /// What happened there.
        kind: FindingKind,
    },
    /// More steps or ranks.
    MoreRanks(u64),
    /// Later steps start from changed weights.
    LaterStepsFollow,

    /// A rank could not be compared.
    NotCompared {
        /// Its name, where there are several.
        rank: Option<String>,
        /// Why.
        error: String,
    },
    /// Only statistics or digests were compared.
    NoElements,
    /// What has no counterpart.
    Unpaired {
        /// Whether the results computed from it agree.
        results_agree: bool,
        /// How many only the target has.
        target: UnpairedCount,
        /// How many only the golden has.
        golden: UnpairedCount,
        /// The first.
        first: String,
        /// The side that has it.
        side: Side,
    },
    /// Calls that could not be judged.
    CallsNotJudged(u64),
    /// Rows that could not be judged.
    RowsNotJudged(u64),
    /// Files and tensors that could not be read.
    NotRead {
        /// How many.
        count: u64,
        /// The first error.
        first: Option<String>,
    },
    /// Steps and ranks that one side lacks, and other words of the dumps.
    Note(String),
    /// A note that is said before anything else.
    NotedFirst(Note),
    /// A note of the comparison.
    Noted {
        /// The steps and ranks that it holds for; empty: all.
        ranks: Vec<String>,
        /// Whether it holds for more than these.
        has_more: bool,
        /// The note.
        note: Note,
    },
    /// More notes are in the result file.
    MoreNotes(u64),

    /// What was compared and agrees.
    ComparedCalls {
        /// Calls without a difference.
        equal: u64,
        /// Calls that differ by no more than rounding allows.
        noise: u64,
    },
    /// What decides how far apart two right results may be.
    ToleranceRule,

    /// Judged by the rule of an older tool.
    JudgedByRule {
        /// The tool.
        style: String,
        /// Rows that fail.
        failed: u64,
        /// All rows.
        rows: u64,
    },
    /// The first row that fails by it.
    FirstFailing {
        /// Its name.
        entry: String,
        /// The line of the sheet.
        line: u64,
        /// The file name of the sheet, if one was written.
        #[serde(default)]
        sheet: Option<String>,
    },
    /// What such a rule cannot tell.
    RuleJudgesRows,

    /// Something to do.
    Next(Instruction),
}

/// How a call introduced an error, with details.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The call.
    pub call: String,
    /// How.
    pub cause: FindingCause,
    /// The argument or result that shows it: `input.1`; its whole name, if it belongs to no call.
    pub entry: String,
    /// What that is, if no recorded call produced it.
    pub origin: Origin,
    /// Who produced it in the target, and in the golden.
    pub producers: [Option<Producer>; 2],
    /// Its dtypes in the target and in the golden.
    pub dtypes: [Option<String>; 2],
    /// What the other side calls at the place of a call that only one side makes.
    pub instead: Option<String>,
}

/// A tensor that no recorded call produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// What it is.
    pub source: OriginSource,
    /// The entry that shows it.
    pub entry: String,
    /// The call that the entry belongs to, where it is an argument of one.
    pub call: Option<String>,
}

/// What a tensor is that no recorded call produced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OriginSource {
    /// A parameter, by its name.
    Parameter(String),
    /// A buffer, by its name.
    Buffer(String),
    /// The gradient of a parameter, by its name.
    Gradient(String),
    /// An argument, by the name that torch gives it.
    Argument(String),
    /// An input without a name.
    Input,
}

/// Who produced a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Producer {
    /// An entry of a call.
    Call {
        /// The call.
        name: String,
        /// The entry: `output.0`.
        entry: String,
    },
    /// A parameter, buffer or gradient: kind and name.
    Named {
        /// `parameter`, `buffer`, `gradient`.
        kind: String,
        /// Its name.
        name: String,
    },
    /// Nothing that was recorded.
    Outside,
}

/// Why no call is to blame for a tensor that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum History {
    /// Earlier steps changed it.
    Trained,
    /// Backward passes accumulated it.
    Accumulated,
    /// What happens between modules is not recorded at level L0.
    BetweenModules,
    /// No recorded call produced it.
    Unrecorded,
}

/// More divergences of the same kind and cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Likewise {
    /// So many more calls get differing parameters or inputs.
    Origins(u64),
    /// So many more calls like this one.
    Calls {
        /// This one.
        call: String,
        /// How many more.
        count: u64,
    },
}

/// Calls and entries that have no counterpart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnpairedCount {
    /// Calls.
    pub calls: u64,
    /// Saved tensors.
    pub entries: u64,
}

/// A pass of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
    /// The optimizer's step.
    Optimizer,
}

/// What an error was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measured {
    /// On the elements of the entry; its distance is in another sentence.
    Elements,
    /// On the statistics of the entry, which bound the distance from below.
    Statistics,
    /// On gradients.
    Gradients,
    /// On what is computed from the call.
    Results,
}

/// What an error reaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// The loss: which call.
    Loss(String),
    /// The parameter gradients of so many modules.
    ParameterGradients(u64),
    /// The backward pass.
    BackwardPass,
}

/// Why something diverged, briefly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Scalar arguments differ.
    CalledWith(Vec<ArgumentDifference>),
    /// Only one side makes the call.
    OnlyIn {
        /// The side.
        side: Side,
        /// What the other side calls at this place.
        instead: Option<String>,
    },
    /// What was measured.
    Seen(Fact),
    /// Nothing was measured: what is said of the cause.
    Said(Box<Statement>),
}

/// Those that differ, and all.
pub(crate) fn pair(share: Share) -> [u64; 2] {
    [share.differ, share.of]
}
