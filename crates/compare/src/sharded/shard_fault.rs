//! What is wrong with some ranks, and how rows say it.

use serde::{Deserialize, Serialize};
use ulpscope_report::format_short;

use super::parameters::{ParameterFault, ParameterFaultKind, StagePlace};

/// What is wrong with some ranks of a run that is compared with a single process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardFault {
    /// A parameter, or a shard of it.
    Parameter(ParameterFault),
    /// A call uses the parts of a sum that was not reduced.
    Unreduced {
        /// The result that is a part of a sum on each rank.
        partial: String,
        /// The argument of the call.
        entry: String,
        /// The ranks.
        ranks: Vec<u64>,
    },
    /// The pieces of the batch do not make the golden's batch.
    LostPiece {
        /// The input.
        entry: String,
        /// The ranks that compute it.
        ranks: Vec<u64>,
        /// How many pieces there are.
        pieces: u64,
        /// How many rows they have.
        rows: u64,
        /// How many the golden has.
        expected: u64,
    },
    /// A stage of a pipeline has no backward pass.
    NoGradient {
        /// The stage.
        stage: u64,
        /// Its ranks.
        ranks: Vec<u64>,
        /// The last result of its forward pass.
        entry: String,
        /// The pieces of the batch without one; nothing if it is all of them.
        lacking: Option<Vec<u64>>,
    },
    /// A stage computes with something else than a different stage computed.
    Message {
        /// The stage that sends, and the one that receives.
        stages: [u64; 2],
        /// The ranks that receive.
        ranks: Vec<u64>,
        /// What arrives.
        entry: String,
        /// Whether it is a gradient.
        is_gradient: bool,
        /// Whether zeros arrive.
        is_zero: bool,
    },
    /// Gradients are not those of the mean over the pieces of the batch.
    Undivided {
        /// The stage; nothing if it is all of them.
        stage: Option<u64>,
        /// The ranks.
        ranks: Vec<u64>,
        /// The first of the gradients.
        entry: String,
        /// How many pieces there are.
        pieces: u64,
        /// Whether they are larger than the golden's.
        is_larger: bool,
    },
    /// Stages that share a parameter have different gradients of it.
    TiedGradients {
        /// The parameter.
        parameter: String,
        /// The stages.
        stages: Vec<u64>,
        /// Their ranks.
        ranks: Vec<u64>,
        /// The gradient in one of them.
        entry: String,
    },
    /// A tensor that all ranks should have in common.
    Replica {
        /// The entry.
        entry: String,
        /// The rank that is furthest from the golden.
        rank: u64,
    },
}

impl ShardFault {
    /// In words, without a full stop.
    pub fn words(&self) -> String {
        match self {
            ShardFault::Parameter(fault) => parameter_words(fault),
            ShardFault::Unreduced { partial, entry, ranks } => format!(
                "{} use {entry}, their part of the sum {partial}, although no collective has summed it: an all-reduce is missing",
                named(ranks)
            ),
            ShardFault::LostPiece { entry, ranks, pieces, rows, expected } => format!(
                "the batch of {} has {rows} of the golden's {expected} rows at {entry}, in {}: a micro-batch is missing",
                named(ranks),
                counted(*pieces, "micro-batch", "micro-batches")
            ),
            ShardFault::NoGradient { stage, ranks, lacking: None, .. } => format!(
                "stage {stage} ({}) has no backward pass: no gradient arrives from the next stage",
                named(ranks)
            ),
            ShardFault::NoGradient { stage, ranks, lacking: Some(pieces), .. } => format!(
                "stage {stage} ({}) has no backward pass for {}",
                named(ranks),
                listed(pieces, "micro-batch", "micro-batches")
            ),
            ShardFault::Message { stages: [from, to], ranks, entry, is_gradient, is_zero } => {
                let what = if *is_gradient { "gradient" } else { "result" };
                let found = if *is_zero { "zero" } else { "different" };
                format!(
                    "{entry} is {found} on stage {to} ({}), although stage {from} computes the right {what}: it is not sent, or \
                     not received",
                    named(ranks)
                )
            }
            ShardFault::Undivided { stage, ranks, entry, pieces, is_larger } => {
                let stage = stage.map(|stage| format!(" of stage {stage}")).unwrap_or_default();
                let (factor, why) = match is_larger {
                    true => (
                        format!("{pieces} times"),
                        "the sum over micro-batches is not divided by their number",
                    ),
                    false => (format!("1/{pieces} of"), "it is divided twice by the number of micro-batches"),
                };
                format!(
                    "the gradients{stage} ({}) are {factor} the golden's, the first is {entry}: {why}",
                    named(ranks)
                )
            }
            ShardFault::TiedGradients { parameter, stages, ranks, .. } => format!(
                "the gradient of {parameter} is not the same on {} ({}), which share this parameter: the gradients of stages \
                 are not summed",
                listed(stages, "stage", "stages"),
                named(ranks)
            ),
            ShardFault::Replica { entry, rank } => {
                format!(
                    "{entry} should be the same on all ranks, and that of rank {rank} is not the golden's"
                )
            }
        }
    }

    /// The entry that shows it.
    pub(super) fn entry(&self) -> &str {
        match self {
            ShardFault::Parameter(fault) => &fault.entry,
            ShardFault::Unreduced { entry, .. }
            | ShardFault::LostPiece { entry, .. }
            | ShardFault::NoGradient { entry, .. }
            | ShardFault::Message { entry, .. }
            | ShardFault::Undivided { entry, .. }
            | ShardFault::TiedGradients { entry, .. }
            | ShardFault::Replica { entry, .. } => entry,
        }
    }
}

fn parameter_words(fault: &ParameterFault) -> String {
    let ParameterFault { parameter, ranks, kind, .. } = fault;
    let words = kind_words(parameter, ranks, kind);
    match &fault.stage {
        None => words,
        Some(StagePlace { stage, name: None }) => format!("{words} (stage {stage})"),
        Some(StagePlace { stage, name: Some(name) }) => {
            format!("{words} (stage {stage}, where it is {name})")
        }
    }
}

fn kind_words(parameter: &str, ranks: &[u64], kind: &ParameterFaultKind) -> String {
    match kind {
        ParameterFaultKind::OtherParameter { found, parameters } => {
            let more = match parameters {
                0 | 1 => String::new(),
                count => format!("; so do {} other parameters", count - 1),
            };
            format!(
                "{parameter} of {} equals a different parameter of the golden's, {found}{more}",
                named(ranks)
            )
        }
        ParameterFaultKind::OtherSlice { found, expected } => format!(
            "{}'s shard of {parameter} equals {} of the golden's; expected {}",
            named(ranks),
            found.words(),
            expected.words()
        ),
        ParameterFaultKind::SameAs(others) => format!(
            "{}'s shard of {parameter} has the same statistics as that of {}, and together they do not make the golden's",
            named(ranks),
            named(others)
        ),
        ParameterFaultKind::Differs { expected, error } => {
            let error = format_short(error * 100.0);
            match (expected, ranks) {
                (Some(expected), _) => format!(
                    "{}'s shard of {parameter} differs from {} of the golden's by {error} %",
                    named(ranks),
                    expected.words()
                ),
                (None, [rank]) => format!("rank {rank}'s {parameter} differs from the golden's by {error} %"),
                (None, ranks) => {
                    format!("the {parameter} of {} differs from the golden's by {error} %", named(ranks))
                }
            }
        }
    }
}

fn named(ranks: &[u64]) -> String {
    listed(ranks, "rank", "ranks")
}

/// `rank 1`, `ranks 0 and 1`, `ranks 0, 1, 2 and 5 others`.
fn listed(numbers: &[u64], one: &str, several: &str) -> String {
    const SHOWN: usize = 4;
    let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
    match &texts[..] {
        [] => format!("no {one}"),
        [number] => format!("{one} {number}"),
        [before @ .., last] if before.len() < SHOWN => format!("{several} {} and {last}", before.join(", ")),
        many => format!("{several} {} and {} others", many[..SHOWN].join(", "), many.len() - SHOWN),
    }
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
