//! What is conspicuous in a single run.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use ulpscope_dump::CallKind;
use ulpscope_report::{escape, format_count, format_short};

use super::numbers::TensorNumbers;
use super::rank_reading::RunCall;

/// What was found, gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RunFindingKind {
    /// NaN or infinity appears here.
    NotFinite,
    /// Values are close to the largest of their dtype.
    OverflowNear,
    /// Nothing but zeros comes out, and something goes in.
    Dead,
    /// An activation is at its limit nearly everywhere.
    Saturated,
    /// A parameter gets a gradient of zeros.
    NoGradient,
    /// A gradient is much larger than the others.
    LargeGradient,
    /// NaN or infinity that an earlier call made, or whose origin is not known: marked, and not listed.
    NonFiniteInherited,
}

/// In the order of the enum.
pub(super) const FINDINGS: [RunFindingKind; 7] = [
    RunFindingKind::NotFinite,
    RunFindingKind::OverflowNear,
    RunFindingKind::Dead,
    RunFindingKind::Saturated,
    RunFindingKind::NoGradient,
    RunFindingKind::LargeGradient,
    RunFindingKind::NonFiniteInherited,
];

impl RunFindingKind {
    /// In words.
    pub(super) fn word(self) -> &'static str {
        match self {
            RunFindingKind::NotFinite => "not finite",
            RunFindingKind::OverflowNear => "overflow near",
            RunFindingKind::Dead => "dead",
            RunFindingKind::Saturated => "saturated",
            RunFindingKind::NoGradient => "no gradient",
            RunFindingKind::LargeGradient => "large gradient",
            RunFindingKind::NonFiniteInherited => "non-finite inherited",
        }
    }

    /// Whether it is wrong in any model.
    pub(super) fn is_bad(self) -> bool {
        matches!(self, RunFindingKind::NotFinite | RunFindingKind::OverflowNear)
    }
}

/// A finding at a call.
#[derive(Clone, Debug)]
pub(super) struct RunFinding {
    pub(super) kind: RunFindingKind,
    pub(super) rank: usize,
    pub(super) call: usize,
    pub(super) entry: Option<String>,
    pub(super) text: String,
    /// The line of the user's code that makes the call.
    pub(super) code: Option<String>,
}

impl RunFinding {
    pub(super) fn to_json(&self) -> Json {
        json!({
            "kind": self.kind.word(),
            "severity": if self.kind.is_bad() { "bad" } else { "warn" },
            "rank": self.rank,
            "call": self.call,
            "entry": self.entry,
            "text": escape::terminal(&self.text),
            "code": self.code,
        })
    }
}

/// Kind, entry and text of what was found.
pub(super) type Found = (RunFindingKind, Option<String>, String);

/// This part of the largest number of a dtype is close to it.
const NEAR_OVERFLOW: f64 = 1.0 / 16.0;

/// A share of zeros after which a layer that gets other values passes nothing on.
const DEAD: f64 = 0.999;

/// How the names of layers begin: modules, and their functions.
const LAYERS: [&str; 3] = ["Module.", "Cell.", "Functional."];

/// Activations with limits at 0 and 1, and at -1 and 1.
const SATURATES_AT_ONE: [&str; 8] =
    ["sigmoid", "Sigmoid", "hardsigmoid", "Hardsigmoid", "tanh", "Tanh", "hardtanh", "Hardtanh"];

/// A root of the mean square closer to the limit than this is saturated.
const SATURATED: f64 = 0.98;

/// A gradient so many times as large as the median stands out.
const LARGE_GRADIENT: f64 = 1000.0;

/// Elements below which nothing is said of a tensor.
const FEW: u64 = 8;

impl RunCall {
    /// What is conspicuous at the call itself.
    pub(super) fn findings(&self) -> Vec<Found> {
        let mut found = Vec::new();
        if let Some(output) = &self.output {
            found.extend(self.near_overflow(output));
            if self.kind == CallKind::Forward {
                found.extend(self.dead(output));
                found.extend(self.saturated(output));
            }
        }
        for (parameter, norm) in &self.gradients {
            if *norm == 0.0 {
                let text = format!("the gradient of {parameter} is all zeros");
                found.push((RunFindingKind::NoGradient, Some(parameter.clone()), text));
            }
        }
        found
    }

    /// Whether it returns NaN or positive infinity. Masks hold negative infinity on purpose.
    pub(super) fn spreads_non_finite(&self) -> bool {
        let is_infinite = self.output.as_ref().and_then(|output| output.max) == Some(f64::INFINITY);
        self.nan > 0 || self.inf > 0 && is_infinite
    }

    /// NaN and infinity in a tensor that no call made, such as one of a checkpoint.
    pub(super) fn holds_non_finite(&self) -> Option<Found> {
        if self.kind != CallKind::Saved {
            return None;
        }
        let kinds = [(self.nan, "NaN"), (self.inf, "infinite")].into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> =
            kinds.map(|(count, word)| format!("{} {word}", format_count(count))).collect();
        (!kinds.is_empty()).then(|| {
            let all = self.shown().count.map(|count| format!(" of {} elements", format_count(count)));
            let text = format!("{} holds {}{}", self.name, kinds.join(" and "), all.unwrap_or_default());
            (RunFindingKind::NotFinite, None, text)
        })
    }

    fn near_overflow(&self, output: &TensorNumbers) -> Option<Found> {
        let (most, limit) = (output.max_abs()?, output.limit?);
        (most.is_finite() && most > limit * NEAR_OVERFLOW).then(|| {
            let percent = format_short(most / limit * 100.0);
            let text = format!(
                "{} returns values up to {}, {percent} % of the largest number of the dtype",
                self.name,
                format_short(most)
            );
            (RunFindingKind::OverflowNear, None, text)
        })
    }

    fn dead(&self, output: &TensorNumbers) -> Option<Found> {
        let input = self.input.as_ref()?;
        let gets_values = input.norm.is_some_and(|norm| norm > 0.0) && input.limit.is_some();
        let was_alive = input.zeros.is_none_or(|zeros| zeros < DEAD);
        let zeros = output.zeros.filter(|zeros| *zeros >= DEAD)?;
        let is_large = output.limit.is_some() && output.count.is_some_and(|count| count >= FEW);
        // Other functions return zeros on purpose.
        let is_layer = LAYERS.iter().any(|first| self.name.starts_with(first));
        (is_layer && gets_values && was_alive && is_large).then(|| {
            let percent = format_short(zeros * 100.0);
            let text = format!("{} returns {percent} % zeros, and gets other values", self.name);
            (RunFindingKind::Dead, None, text)
        })
    }

    fn saturated(&self, output: &TensorNumbers) -> Option<Found> {
        let is_bounded = SATURATES_AT_ONE.contains(&self.place.op.as_str());
        let is_large = output.count.is_some_and(|count| count >= FEW);
        let mean = output.root_mean_square().filter(|_| is_bounded && is_large)?;
        (mean > SATURATED).then(|| {
            let text = format!(
                "{} is at its limit nearly everywhere: the root of the mean square is {}, of at most 1",
                self.name,
                format_short(mean)
            );
            (RunFindingKind::Saturated, None, text)
        })
    }
}

/// Gradients that are much larger than the median of all of a rank, by the number of their call.
pub(super) fn gradients_that_stand_out(calls: &[RunCall]) -> HashMap<usize, Found> {
    let mut norms: Vec<f64> =
        calls.iter().flat_map(|call| call.gradients.iter().map(|(_, norm)| *norm)).collect();
    norms.retain(|norm| norm.is_finite() && *norm > 0.0);
    norms.sort_by(f64::total_cmp);
    let Some(&median) = norms.get(norms.len() / 2) else { return HashMap::new() };
    let mut found = HashMap::new();
    for (at, call) in calls.iter().enumerate() {
        let large =
            call.gradients.iter().find(|(_, norm)| norm.is_finite() && *norm > median * LARGE_GRADIENT);
        if let Some((parameter, norm)) = large {
            let text = format!(
                "the gradient of {parameter} has the norm {}, {} × the median of all",
                format_short(*norm),
                format_short(norm / median)
            );
            found.insert(at, (RunFindingKind::LargeGradient, Some(parameter.clone()), text));
        }
    }
    found
}
