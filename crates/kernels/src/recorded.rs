//! The statistics that capture records: the one list of their keys.
//!
//! Whoever writes, reads, shows or compares what was recorded goes through [`RECORDED`]. A statistic is added by a row here
//! and, where it is not measured yet, a field of [`Stats`].

use ulpscope_tensor::Scalar;

use crate::stats::Stats;

/// One statistic of a recorded tensor.
#[derive(Debug)]
pub struct Statistic {
    /// Its key in `dump.json`.
    pub key: &'static str,
    /// Its name in results and tables.
    pub name: &'static str,
    kind: Kind,
    get: fn(&Stats) -> Option<Scalar>,
}

/// When a statistic is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Always. A tensor without dimensions has its value there, as msprobe has it.
    Summary,
    /// If the tensor has an element that is not finite: how many there are of a kind.
    Count,
    /// If the tensor has an element that is not finite: something of those that are.
    OfFinite,
}

/// How many there are.
const COUNT: usize = 8;

/// How many of them are summaries: they come first.
pub const SUMMARIES: usize = 4;

/// All of them, in the order in which they are written.
pub const RECORDED: [Statistic; COUNT] = [
    Statistic { key: "Max", name: "max", kind: Kind::Summary, get: |stats| stats.max },
    Statistic { key: "Min", name: "min", kind: Kind::Summary, get: |stats| stats.min },
    Statistic { key: "Mean", name: "mean", kind: Kind::Summary, get: |stats| stats.mean.map(Scalar::Float) },
    Statistic {
        key: "Norm",
        name: "norm",
        kind: Kind::Summary,
        get: |stats| (stats.count > 0).then_some(Scalar::Float(stats.norm)),
    },
    Statistic {
        key: "nan",
        name: "nan",
        kind: Kind::Count,
        get: |stats| Some(Scalar::Int(stats.nan.into())),
    },
    Statistic {
        key: "inf",
        name: "inf",
        kind: Kind::Count,
        get: |stats| Some(Scalar::Int(stats.infinite().into())),
    },
    Statistic { key: "finite_max", name: "finite_max", kind: Kind::OfFinite, get: |stats| stats.finite_max },
    Statistic { key: "finite_min", name: "finite_min", kind: Kind::OfFinite, get: |stats| stats.finite_min },
];

/// The keys of the summaries.
pub const SUMMARY_KEYS: [&str; SUMMARIES] = {
    let mut keys = [""; SUMMARIES];
    let mut index = 0;
    while index < COUNT {
        let statistic = &RECORDED[index];
        assert!(
            matches!(statistic.kind, Kind::Summary) == (index < SUMMARIES),
            "SUMMARIES counts the summaries, which come first"
        );
        if index < SUMMARIES {
            keys[index] = statistic.key;
        }
        index += 1;
    }
    keys
};

impl Statistic {
    /// Whether it is recorded of every tensor, and not only of those with elements that are not finite.
    pub fn is_summary(&self) -> bool {
        self.kind == Kind::Summary
    }

    /// Whether it counts elements.
    pub fn is_count(&self) -> bool {
        self.kind == Kind::Count
    }

    /// Its value; nothing where a tensor has none. One without dimensions has its only element as every summary.
    pub fn of(&self, stats: &Stats, is_scalar: bool) -> Option<Scalar> {
        if is_scalar && self.is_summary() { stats.max } else { (self.get)(stats) }
    }
}

impl Stats {
    /// Elements that are infinite, of either sign.
    pub fn infinite(&self) -> u64 {
        self.pos_inf + self.neg_inf
    }

    /// Whether any element is not finite.
    pub fn has_non_finite(&self) -> bool {
        self.nan + self.infinite() > 0
    }
}
