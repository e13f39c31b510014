//! The verdict of a whole comparison: one word, its reason, and its exit code.
//!
//! Everything that reports a verdict (terminal, `explain`, `result.json`, Python, advisor) uses this one, so that no
//! two of them disagree.

use std::fmt;

use serde::{Deserialize, Serialize};
use ulpscope_report::format_short;

use crate::final_result::{EndDifference, FinalResult};
use crate::finding::FindingCause;
use crate::job::{RankResult, first_divergence};
use crate::run::{Counts, RankOutcome};
use crate::style::Side;

/// The one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Everything was compared, and nothing differs.
    Agree,
    /// Something differs, and the call that introduced it was found; in an older tool's style, a row fails.
    Differ,
    /// Neither is certain.
    Inconclusive,
}

impl Answer {
    /// For programs.
    pub fn word(self) -> &'static str {
        match self {
            Answer::Agree => "agree",
            Answer::Differ => "differ",
            Answer::Inconclusive => "inconclusive",
        }
    }

    /// For people.
    pub fn shouted(self) -> &'static str {
        match self {
            Answer::Agree => "AGREE",
            Answer::Differ => "DIFFER",
            Answer::Inconclusive => "INCONCLUSIVE",
        }
    }
}

/// The verdict, by its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Nothing differs. Results computed from unpaired or uncompared calls agree.
    Agrees {
        /// Calls and tensors that only one side has.
        unpaired: u64,
        /// Rows that were not compared.
        not_compared: u64,
        /// Rows to look at that no call is blamed for: a decision between nearly equal values went the other way.
        warned: u64,
        /// Whether every final result was compared with what accumulated rounding allows.
        bounded: bool,
        /// The side that has no backward pass, if the other has one: gradients were not compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forward_only: Option<Side>,
        /// Where final results differ by rounding and only their statistics are known: the relative norm of errors that may
        /// not show. Those of single elements may be larger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hidden: Option<f64>,
    },
    /// No row fails by the rule of an older tool.
    Passes {
        /// The tool.
        rule: String,
        /// Rows that pass.
        passed: u64,
        /// All rows.
        rows: u64,
    },
    /// Calls introduced an error.
    Blamed {
        /// The first of them.
        first: String,
        /// How many there are.
        calls: u64,
    },
    /// Two programs of different calls compute different results.
    Parted {
        /// The first call to look at.
        first: String,
        /// Calls of the target among which the difference arises.
        target: u64,
        /// Likewise of the golden.
        golden: u64,
    },
    /// Tensors that belong to no call differ: those of two checkpoints, or saved ones.
    TensorsDiffer {
        /// The first of them.
        first: String,
        /// How many there are.
        differ: u64,
        /// All that were compared.
        of: u64,
    },
    /// Rows fail by the rule of an older tool.
    Fails {
        /// The tool.
        rule: String,
        /// Rows that fail.
        failed: u64,
        /// All rows.
        rows: u64,
    },
    /// Rows differ, and no call was found that introduced it.
    Unexplained {
        /// Rows that differ.
        failed: u64,
        /// All rows.
        rows: u64,
    },
    /// A result that the run ends in differs by more than accumulated rounding allows, and no call was found that
    /// introduced it.
    FinalResult(FinalResult),
    /// Replay refuted every call that seemed to introduce an error, and not all final results could be compared.
    Refuted {
        /// The first of these calls.
        first: String,
        /// How many there are.
        calls: u64,
    },
    /// No call of one side has a counterpart.
    NothingPaired,
    /// What was compared agrees, but some calls or tensors are on one side only.
    Unpaired {
        /// Those of the target.
        target: u64,
        /// Those of the golden.
        golden: u64,
    },
    /// What was compared agrees, but some steps or ranks are on one side only.
    UnpairedRanks(u64),
    /// What was compared agrees, but something could not be read.
    Unread {
        /// How many things.
        count: u64,
        /// Whether anything was compared.
        compared: bool,
    },
    /// What was compared agrees, but a run ended before everything was recorded.
    Cut,
    /// There was nothing to compare.
    Nothing,
    /// What was compared agrees, but some rows could not be judged.
    Undecided {
        /// These rows.
        rows: u64,
        /// Whether any row was judged.
        judged: bool,
    },
}

impl Agreement {
    /// The one word.
    pub fn answer(&self) -> Answer {
        match self {
            Agreement::Agrees { .. } | Agreement::Passes { .. } => Answer::Agree,
            Agreement::Blamed { .. }
            | Agreement::Parted { .. }
            | Agreement::TensorsDiffer { .. }
            | Agreement::Fails { .. } => Answer::Differ,
            Agreement::Unexplained { .. }
            | Agreement::FinalResult(_)
            | Agreement::Refuted { .. }
            | Agreement::NothingPaired
            | Agreement::Unpaired { .. }
            | Agreement::UnpairedRanks(_)
            | Agreement::Unread { .. }
            | Agreement::Cut
            | Agreement::Nothing
            | Agreement::Undecided { .. } => Answer::Inconclusive,
        }
    }

    /// Whether everything was compared and agrees.
    pub fn is_agree(&self) -> bool {
        self.answer() == Answer::Agree
    }

    /// The exit code: 0 agrees, 1 something differs or is on one side only, 2 something could not be read or judged.
    pub fn exit_code(&self) -> u8 {
        match self {
            Agreement::Agrees { .. } | Agreement::Passes { .. } => 0,
            Agreement::Blamed { .. }
            | Agreement::Parted { .. }
            | Agreement::TensorsDiffer { .. }
            | Agreement::Fails { .. }
            | Agreement::Unexplained { .. }
            | Agreement::FinalResult(_)
            | Agreement::Refuted { .. }
            | Agreement::NothingPaired
            | Agreement::Unpaired { .. }
            | Agreement::UnpairedRanks(_) => 1,
            Agreement::Unread { .. } | Agreement::Cut | Agreement::Nothing | Agreement::Undecided { .. } => 2,
        }
    }
}

/// What is known of a comparison besides its ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// Steps and ranks that only one side has.
    pub lone_ranks: u64,
    /// Parts of the dumps that could not be opened.
    pub problems: u64,
    /// The older tool whose rule judged the rows.
    pub rule: Option<&'a str>,
}

/// Decides the verdict. A difference outweighs what could not be read; but calls that only one side has may be missing
/// from the other because its dump is damaged.
pub fn agreement<S>(results: &[RankResult<S>], around: Surroundings<'_>) -> Agreement {
    let outcomes = || results.iter().filter_map(|rank| rank.result.as_ref().ok().map(|(outcome, _)| outcome));
    let mut counts = Counts::default();
    outcomes().for_each(|outcome| counts.add(&outcome.counts));
    let Counts { rows, passed, warned, failed, not_compared } = counts;
    if let Some(rule) = around.rule.filter(|_| failed > 0) {
        return Agreement::Fails { rule: rule.to_owned(), failed, rows };
    }
    if let Some((_, first)) = first_divergence(results) {
        let calls = outcomes().map(|outcome| outcome.divergence_count).sum();
        if let FindingCause::Region(region) = &first.finding.cause {
            let [target, golden] = [&region.target, &region.golden].map(|side| side.computing.len() as u64);
            return Agreement::Parted { first: first.call.clone(), target, golden };
        }
        let first = first.call.clone();
        return match outcomes().all(|outcome| outcome.only_tensors) {
            true => Agreement::TensorsDiffer { first, differ: calls, of: rows - not_compared },
            false => Agreement::Blamed { first, calls },
        };
    }
    if let Some(result) = outcomes().find_map(|outcome| outcome.unexplained.as_ref()) {
        return Agreement::FinalResult(result.clone());
    }
    let is_open = |outcome: &&RankOutcome| !outcome.refuted.is_empty() && !outcome.are_final_results_bounded;
    if let Some(first) = outcomes().find(is_open).and_then(|outcome| outcome.refuted.first()) {
        let calls = outcomes().map(|outcome| outcome.refuted.len() as u64).sum();
        return Agreement::Refuted { first: first.call.clone(), calls };
    }
    if failed > 0 {
        return Agreement::Unexplained { failed, rows };
    }
    let refused = results.iter().filter(|rank| rank.result.is_err()).count() as u64;
    let unread = refused + around.problems + outcomes().map(|one| one.problems.count()).sum::<u64>();
    if unread > 0 {
        return Agreement::Unread { count: unread, compared: passed > 0 };
    }
    if outcomes().any(|outcome| outcome.is_cut) {
        return Agreement::Cut;
    }
    if rows == 0 {
        return Agreement::Nothing;
    }
    let unpaired = |side: Side| outcomes().map(|outcome| outcome.only_in(side) as u64).sum::<u64>();
    let (target, golden) = (unpaired(Side::Target), unpaired(Side::Golden));
    // If calls are judged, unpaired calls are followed: if the results computed from them agree, all is well.
    if outcomes().any(|outcome| outcome.partnerless.iter().any(|lone| !lone.is_joined)) {
        let is_native = around.rule.is_none();
        return match is_native && outcomes().all(|outcome| outcome.paired.is_empty()) {
            true => Agreement::NothingPaired,
            false => Agreement::Unpaired { target, golden },
        };
    }
    if around.lone_ranks > 0 {
        return Agreement::UnpairedRanks(around.lone_ranks);
    }
    let undecided: u64 = outcomes().map(|outcome| outcome.undecided).sum();
    // Two programs whose calls have no partners have no rows that pass, and final results that agree all the same.
    let is_vouched = around.rule.is_none()
        && target > 0
        && golden > 0
        && outcomes().all(|outcome| outcome.paired.is_empty() && outcome.are_final_results_bounded);
    if passed == 0 && !is_vouched || undecided > 0 {
        return Agreement::Undecided { rows: undecided, judged: passed > 0 };
    }
    match around.rule {
        Some(rule) => Agreement::Passes { rule: rule.to_owned(), passed, rows },
        None => {
            let bounded = outcomes().all(|outcome| outcome.are_final_results_bounded);
            let forward_only = outcomes().find_map(|outcome| outcome.forward_only);
            let hidden = outcomes().filter_map(|outcome| outcome.hidden_error).reduce(f64::max);
            Agreement::Agrees {
                unpaired: target + golden,
                not_compared,
                warned,
                bounded,
                forward_only,
                hidden,
            }
        }
    }
}

impl fmt::Display for Agreement {
    /// The reason, in a sentence without its full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Agreement::Agrees { unpaired: 0, not_compared: 0, warned: 0, hidden, .. } => {
                f.write_str("everything was compared, nothing differs")?;
                write_hidden(*hidden, f)
            }
            Agreement::Agrees { unpaired, not_compared, warned, bounded, forward_only, hidden } => {
                if let Some(side) = forward_only {
                    let side = side.word();
                    write!(
                        f,
                        "the {side} has no backward pass, so gradients were not compared; of the forward pass, "
                    )?;
                }
                let unpaired = Some(*unpaired).filter(|&count| count > 0).map(|count| match count {
                    1 => "1 call or tensor has no counterpart".to_owned(),
                    count => format!("{count} calls or tensors have no counterpart"),
                });
                let rows = Some(*not_compared)
                    .filter(|&count| count > 0)
                    .map(|count| format!("{} not compared", were(count, "row", "rows")));
                let rest: Vec<String> = unpaired.into_iter().chain(rows).collect();
                match warned {
                    0 => {
                        let results = if *bounded { ", and the final results agree" } else { "" };
                        write!(f, "nothing differs ({}{results})", rest.join(", "))?;
                    }
                    count => {
                        let rows = counted(*count, "row differs", "rows differ");
                        let look = match bounded {
                            true => format!("{rows} without an effect on the final results, which agree"),
                            false => format!("{rows} by decisions between nearly equal values"),
                        };
                        let rest = [vec![look], rest].concat().join(", ");
                        write!(f, "no call introduced an error ({rest})")?;
                    }
                }
                write_hidden(*hidden, f)
            }
            Agreement::Passes { rule, passed, rows } => {
                write!(f, "no row fails by the rule of {rule}; {passed} of {rows} rows pass")
            }
            // A single tensor file has one tensor without a name.
            Agreement::TensorsDiffer { first, .. } if first.is_empty() => {
                f.write_str("the two tensors differ")
            }
            Agreement::TensorsDiffer { first, differ: 1, of } => {
                write!(f, "{first} differs, the only one of {}", counted(*of, "tensor", "tensors"))
            }
            Agreement::TensorsDiffer { first, differ, of } => {
                write!(f, "{differ} of {of} tensors differ, the first is {first}")
            }
            Agreement::Blamed { first, calls: 1 } => write!(f, "{first} introduced an error"),
            Agreement::Blamed { first, calls } => {
                write!(f, "{calls} calls introduced an error, the first is {first}")
            }
            Agreement::Parted { first, target, golden } => write!(
                f,
                "the two programs compute different results; the cause is among {} of the target and {golden} of the golden, \
                 the first to look at is {first}",
                counted(*target, "call", "calls"),
            ),
            Agreement::Fails { rule, failed, rows } => {
                write!(f, "{failed} of {rows} rows fail by the rule of {rule}")
            }
            Agreement::Unexplained { failed, rows } => {
                write!(f, "{failed} of {rows} rows differ, and no call explains it")
            }
            Agreement::FinalResult(result) if result.difference != EndDifference::Numbers => {
                write!(f, "{result}")
            }
            Agreement::FinalResult(result) => write!(f, "{result}, and no call explains it"),
            Agreement::Refuted { first, calls: 1 } => {
                write!(
                    f,
                    "replay refuted that {first} introduced an error, and no replayable call explains the difference"
                )
            }
            Agreement::Refuted { first, calls } => write!(
                f,
                "replay refuted that {calls} calls introduced an error (the first is {first}), and no replayable call \
                 explains the difference"
            ),
            Agreement::NothingPaired => {
                f.write_str("no call has a counterpart in the other run, so nothing was compared")
            }
            Agreement::Unpaired { target, golden } => {
                let sides = [(target, "target"), (golden, "golden")].into_iter();
                let sides = sides.filter(|(count, _)| **count > 0);
                let sides: Vec<String> = sides.map(|(count, side)| format!("{side} only: {count}")).collect();
                let sides = sides.join(", ");
                write!(f, "what was compared agrees, but some calls or tensors have no counterpart ({sides})")
            }
            Agreement::UnpairedRanks(1) => {
                f.write_str("what was compared agrees, but 1 step or rank has no counterpart")
            }
            Agreement::UnpairedRanks(count) => {
                write!(f, "what was compared agrees, but {count} steps or ranks have no counterpart")
            }
            Agreement::Unread { count, compared } => {
                let agrees =
                    if *compared { "what was compared agrees, but" } else { "nothing was compared:" };
                match count {
                    1 => write!(f, "{agrees} 1 file or tensor could not be read (see the errors)"),
                    count => {
                        write!(f, "{agrees} {count} files or tensors could not be read (see the errors)")
                    }
                }
            }
            Agreement::Cut => {
                f.write_str("what was compared agrees, but a run ended before everything was recorded")
            }
            Agreement::Nothing => f.write_str("there was nothing to compare"),
            Agreement::Undecided { rows, judged: true } => {
                write!(
                    f,
                    "what was compared agrees, but {} could not be judged",
                    counted(*rows, "row", "rows")
                )
            }
            Agreement::Undecided { judged: false, .. } => f.write_str("no row could be judged"),
        }
    }
}

/// What statistics do not show.
fn write_hidden(hidden: Option<f64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(share) = hidden.map(|share| format_short(share * 100.0)) else { return Ok(()) };
    write!(
        f,
        "; of final results only statistics were compared, in which an error of {share} % of their norm may not show, \
         and a larger one in single elements"
    )
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn were(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", counted(count, one, many), if count == 1 { "was" } else { "were" })
}
