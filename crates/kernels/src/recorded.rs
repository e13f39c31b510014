//! The statistics that capture records, and their keys.
//!
//! The journal, the reader of dumps and what shows them use [`RECORDED`]. To add a statistic, add a row at its end and,
//! if it is not measured yet, a field of [`Stats`]. The four summaries, which come first, are msprobe's: the readers of
//! that tool's files in `formats` have their keys, too.

use ulpscope_tensor::Scalar;

use crate::stats::Stats;

/// One statistic of a recorded tensor.
#[derive(Debug)]
pub struct Statistic {
    /// Its key in `dump.json`.
    pub key: &'static str,
    /// Its name in tables and in the JSON of commands.
    pub name: &'static str,
    kind: Kind,
    /// Which tensors have it.
    when: fn(&Stats) -> bool,
    get: fn(&Stats) -> Option<Scalar>,
}

/// The kind of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One that msprobe records too. Every tensor has them. For a tensor without dimensions each is its value, as in
    /// dumps of msprobe.
    Summary,
    /// A number of elements.
    Count,
    /// Something else.
    Value,
}

/// The number of statistics.
const COUNT: usize = 8;

/// The number of summaries; they come first.
pub const SUMMARIES: usize = 4;

/// All statistics, in the order in which they are written.
pub static RECORDED: [Statistic; COUNT] = [
    summary("Max", "max", |stats| stats.max),
    summary("Min", "min", |stats| stats.min),
    summary("Mean", "mean", |stats| stats.mean.map(Scalar::Float)),
    summary("Norm", "norm", |stats| (stats.count > 0).then_some(Scalar::Float(stats.norm))),
    Statistic {
        key: "nan",
        name: "nan",
        kind: Kind::Count,
        when: Stats::has_non_finite,
        get: |stats| Some(Scalar::Int(stats.nan.into())),
    },
    Statistic {
        key: "inf",
        name: "inf",
        kind: Kind::Count,
        when: Stats::has_non_finite,
        get: |stats| Some(Scalar::Int(stats.infinite().into())),
    },
    Statistic {
        key: "finite_max",
        name: "finite_max",
        kind: Kind::Value,
        when: Stats::has_non_finite,
        get: |stats| stats.finite_max,
    },
    Statistic {
        key: "finite_min",
        name: "finite_min",
        kind: Kind::Value,
        when: Stats::has_non_finite,
        get: |stats| stats.finite_min,
    },
];

const fn summary(key: &'static str, name: &'static str, get: fn(&Stats) -> Option<Scalar>) -> Statistic {
    Statistic { key, name, kind: Kind::Summary, when: |_| true, get }
}

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
    /// Whether msprobe records it too.
    pub fn is_summary(&self) -> bool {
        self.kind == Kind::Summary
    }

    /// Whether it counts elements.
    pub fn is_count(&self) -> bool {
        self.kind == Kind::Count
    }

    /// Whether it is recorded for a tensor with these measurements.
    pub fn is_recorded_of(&self, stats: &Stats) -> bool {
        (self.when)(stats)
    }

    /// Those that msprobe records too, and the others.
    pub fn summaries_and_others() -> (&'static [Statistic], &'static [Statistic]) {
        RECORDED.split_at(SUMMARIES)
    }

    /// Its value; nothing if the tensor has none. For a tensor without dimensions every summary is its only element.
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
