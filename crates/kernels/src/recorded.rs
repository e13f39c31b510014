//! The statistics that capture records: the one list of their keys.
//!
//! Whoever writes, reads or shows what was recorded goes through [`RECORDED`]. A statistic is added by a row at its end and,
//! where it is not measured yet, a field of [`Stats`].

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

/// What a statistic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One of those that msprobe records, too. Every tensor has them; one without dimensions has its value there, as in
    /// dumps of msprobe.
    Summary,
    /// A number of elements.
    Count,
    /// Something else.
    Value,
}

/// How many there are.
const COUNT: usize = 8;

/// How many of them are summaries: they come first.
pub const SUMMARIES: usize = 4;

/// All of them, in the order in which they are written.
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
    /// Whether it is one of those that msprobe records, too.
    pub fn is_summary(&self) -> bool {
        self.kind == Kind::Summary
    }

    /// Whether it counts elements.
    pub fn is_count(&self) -> bool {
        self.kind == Kind::Count
    }

    /// Whether it is recorded of a tensor that was measured.
    pub fn is_recorded_of(&self, stats: &Stats) -> bool {
        (self.when)(stats)
    }

    /// Those that msprobe records, too, and the others.
    pub fn summaries_and_others() -> (&'static [Statistic], &'static [Statistic]) {
        RECORDED.split_at(SUMMARIES)
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
