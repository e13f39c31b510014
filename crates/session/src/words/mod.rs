//! The words of explanations and summaries, in all languages.
//!
//! A language is a file that implements [`Words`], and a line in [`Language`]. Names of calls, commands and
//! errors are the same in all of them, and so is everything in `result.json` except the explanation.

mod chinese;
mod english;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulpscope_compare::{Agreement, Class, Paired, Proof};
use ulpscope_report::{format_count, format_ratio};

use crate::deviating::Deviating;
use crate::statement::{Heading, Statement};

/// The environment variable that names the language.
pub const VARIABLE: &str = "ULPSCOPE_LANG";

/// A language of explanations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Language {
    /// English.
    #[default]
    #[serde(rename = "en")]
    English,
    /// Simplified Chinese.
    #[serde(rename = "zh")]
    Chinese,
}

impl Language {
    /// Every language.
    pub const ALL: [Language; 2] = [Language::English, Language::Chinese];

    /// Its name on the command line.
    pub fn code(self) -> &'static str {
        match self {
            Language::English => "en",
            Language::Chinese => "zh",
        }
    }

    /// Its words.
    pub fn words(self) -> &'static dyn Words {
        match self {
            Language::English => &english::English,
            Language::Chinese => &chinese::Chinese,
        }
    }

    /// The language set in the environment.
    pub fn of_environment() -> Result<Language, String> {
        match std::env::var(VARIABLE) {
            Ok(code) if !code.is_empty() => code.parse().map_err(|error| format!("{VARIABLE}: {error}")),
            _ => Ok(Language::default()),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.code())
    }
}

impl FromStr for Language {
    type Err = String;

    fn from_str(text: &str) -> Result<Language, String> {
        Language::ALL.into_iter().find(|language| language.code() == text).ok_or_else(|| {
            let known: Vec<&str> = Language::ALL.iter().map(|language| language.code()).collect();
            format!("expected one of {}, found {text:?}", known.join(", "))
        })
    }
}

/// A language.
pub trait Words: Sync {
    /// The heading of a section, with its colon.
    fn heading(&self, heading: Heading) -> &'static str;

    /// A sentence.
    fn statement(&self, statement: &Statement) -> String;

    /// A sentence that stands alone, without the heading of its section.
    fn headline(&self, statement: &Statement) -> String;

    /// The verdict: one word, then its reason.
    fn verdict(&self, agreement: &Agreement) -> String;

    /// A name in the summary.
    fn label(&self, label: Label) -> &'static str;

    /// A line or a title of the summary.
    fn summary(&self, line: &SummaryLine<'_>) -> String;

    /// The class of a call.
    fn class(&self, class: Class) -> &'static str;
}

/// Names of rows and columns of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// The verdict.
    Verdict,
    /// Rows of the result.
    Rows,
    /// Calls of the runs.
    Calls,
    /// Calls by class.
    Classes,
    /// How long it took.
    Time,
    /// What could not be read.
    Problems,
    /// A step or rank.
    Part(Parts),
    /// How many rows differ.
    Differ,
    /// How many calls differ.
    CallsDiffer,
    /// What has no counterpart.
    NoCounterpart,
    /// The first divergence.
    FirstDivergence,
    /// A call.
    Call,
    /// How many steps or ranks.
    Parts(Parts),
    /// Which of them.
    Which,
    /// The side that has something.
    OnlyIn,
    /// A call or an entry.
    CallOrEntry,
    /// Why.
    Reason,
}

/// Of what a comparison has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parts {
    /// Steps, of one rank each.
    Steps,
    /// Ranks of one step.
    Ranks,
    /// Both.
    StepsAndRanks,
}

/// Lines and titles of the summary.
#[derive(Clone, Debug)]
pub enum SummaryLine<'a> {
    /// Rows by verdict.
    Rows(ulpscope_compare::Counts),
    /// How calls were paired, and how many were not.
    Calls {
        /// By way of pairing.
        paired: &'a [Paired],
        /// Whether an older tool's way was used.
        by_style: bool,
        /// Those of the target alone.
        target: usize,
        /// Those of the golden alone.
        golden: usize,
    },
    /// So many files or tensors could not be read.
    Problems(u64),
    /// How long it took, and how many bytes were read.
    Time {
        /// Seconds.
        seconds: f64,
        /// Bytes of tensors.
        bytes: u64,
    },
    /// The title of the table of steps and ranks, with how many more there are.
    PartsTitle(Parts, usize),
    /// The title of the table of calls by step and rank.
    CallsByPartTitle(Parts, usize),
    /// The title of the table of what has no counterpart.
    UnpairedTitle(usize),
    /// Ranks that are unlike most ranks of their step, and how many more.
    Deviating {
        /// The first of them.
        shown: &'a [Deviating],
        /// How many more.
        more: usize,
    },
    /// A file was written.
    Wrote(String),
}

/// Characters of a reason in a list.
const REASON: usize = 100;

/// As much of a reason as fits into a list.
fn shortened(reason: String) -> String {
    match reason.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason,
    }
}

/// A count, thousands grouped.
fn counted(count: impl TryInto<u64>) -> String {
    format_count(count.try_into().unwrap_or(u64::MAX))
}

/// Whether the target has the larger own error, and how many times that of the golden, or the other way round; `None`
/// where the two are alike or were not both measured.
fn larger_own_error(proof: &Proof) -> Option<(bool, String)> {
    let [Some(target), Some(golden)] = &proof.own else { return None };
    let (larger, smaller) = (target.error.max(golden.error), target.error.min(golden.error));
    let is_alike = larger < 2.0 * smaller;
    let is_known = smaller > 0.0 && larger.is_finite();
    (is_known && !is_alike).then(|| (target.error > golden.error, format_ratio(larger / smaller)))
}

/// A share in percent, with a readable number of digits.
fn percent(share: f64) -> String {
    format!("{} %", ulpscope_report::format_short(share * 100.0))
}

/// Confidence in four levels, best first.
fn level(confidence: f64) -> usize {
    [0.9, crate::next_step::SURE, 0.5].iter().filter(|&&least| confidence < least).count()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn languages_are_named() {
        for language in Language::ALL {
            assert_eq!(language.to_string().parse::<Language>().unwrap(), language);
        }
        assert_eq!("fr".parse::<Language>().unwrap_err(), "expected one of en, zh, found \"fr\"");
    }
}
