//! The headings, and the types of the columns.
//!
//! The tool's tables are pandas tables: a column of statistics with only numbers is a column of floats, or of integers
//! if all are integers. A single `None` makes it a column of mixed values. So `2046` is shown as `2046.0` in a table
//! without `None`, which is known only at the end of the dump.

use super::item::Stat;
use super::mode::Mode;

pub(crate) const NAMES: [&str; 8] = [
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
];
pub(crate) const REAL: [&str; 6] = [
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
];
pub(crate) const DIFFERENCES: [&str; 8] = [
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
];
pub(crate) const STATISTICS: [&str; 8] =
    ["NPU max", "NPU min", "NPU mean", "NPU l2norm", "Bench max", "Bench min", "Bench mean", "Bench l2norm"];
pub(crate) const DIGESTS: [&str; 2] = ["NPU MD5", "BENCH MD5"];
const VERDICT: [&str; 3] = ["Requires_grad Consistent", "Result", "Err_message"];
pub(crate) const STACK: &str = "NPU_Stack_Info";
pub(crate) const DATA: &str = "Data_name";

/// The headings of a mode.
pub(crate) fn headings(mode: Mode, stack: bool) -> Vec<String> {
    let parts: &[&[&str]] = match mode {
        Mode::Real => &[&NAMES, &REAL, &STATISTICS, &VERDICT],
        Mode::Statistics => &[&NAMES, &DIFFERENCES, &STATISTICS, &VERDICT],
        Mode::Digests => &[&NAMES, &DIGESTS, &VERDICT],
    };
    let stack = stack.then_some(STACK);
    let data = (mode == Mode::Real).then_some(DATA);
    parts.iter().copied().flatten().copied().chain(stack).chain(data).map(str::to_owned).collect()
}

/// The kinds of values in one side's columns of statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Met {
    text: [bool; 4],
    flag: [bool; 4],
    integer: [bool; 4],
    float: [bool; 4],
}

impl Met {
    /// Adds the statistics of a row.
    pub(crate) fn add(&mut self, stats: &[Stat<'_>; 4]) {
        for (column, stat) in stats.iter().enumerate() {
            let kind = match stat {
                Stat::None | Stat::Text(_) => &mut self.text,
                Stat::Float(number) if number.is_nan() => &mut self.text,
                Stat::Bool(_) => &mut self.flag,
                Stat::Int(_) => &mut self.integer,
                Stat::Float(_) => &mut self.float,
            };
            kind[column] = true;
        }
    }

    /// Adds a row without statistics.
    pub(crate) fn add_absent(&mut self) {
        self.text = [true; 4];
    }

    /// Adds the kinds found elsewhere.
    fn merge(&mut self, more: &Met) {
        for column in 0..4 {
            self.text[column] |= more.text[column];
            self.flag[column] |= more.flag[column];
            self.integer[column] |= more.integer[column];
            self.float[column] |= more.float[column];
        }
    }

    /// The kinds on both sides, in total.
    pub(crate) fn in_all(found: impl Iterator<Item = [Met; 2]>) -> [Met; 2] {
        found.fold([Met::default(); 2], |mut all, more| {
            all.iter_mut().zip(&more).for_each(|(all, more)| all.merge(more));
            all
        })
    }

    /// Whether the column types cannot change any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.text == [true; 4]
    }

    /// Whether there are integers, whose text depends on the column type.
    pub(crate) fn has_integers(&self) -> bool {
        self.integer.contains(&true)
    }

    /// The final column types.
    pub(crate) fn types(&self) -> [ColumnType; 4] {
        let types = std::array::from_fn(|column| {
            let number = self.integer[column] || self.float[column];
            if self.text[column] || self.flag[column] || !number {
                ColumnType::Mixed
            } else if self.float[column] {
                ColumnType::Floats
            } else {
                ColumnType::Integers
            }
        });
        // Four columns of numbers form one block, which has one type.
        if types.contains(&ColumnType::Floats) && !types.contains(&ColumnType::Mixed) {
            return [ColumnType::Floats; 4];
        }
        types
    }
}

/// The type of a column of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// Mixed values, unchanged.
    Mixed,
    /// Floats; integers are converted.
    Floats,
    /// Integers.
    Integers,
}

impl ColumnType {
    /// A statistic as this column holds it; non-numbers as text.
    pub(crate) fn hold<'a>(self, stat: Stat<'a>) -> Stat<'a> {
        match stat {
            Stat::Int(number) if self == ColumnType::Floats => Stat::Float(number as f64),
            Stat::Float(number) if number.is_nan() => Stat::Text("Nan".into()),
            Stat::Text(text) if text.eq_ignore_ascii_case("nan") => Stat::Text("Nan".into()),
            Stat::None => Stat::Text("None".into()),
            stat => stat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_none_keeps_the_integers() {
        let mut met = Met::default();
        met.add(&[Stat::Int(1), Stat::Int(2), Stat::None, Stat::None]);
        met.add(&[Stat::Float(1.5), Stat::Int(2), Stat::Float(1.0), Stat::Float(1.0)]);
        use ColumnType::{Floats, Integers, Mixed};
        assert_eq!(met.types(), [Floats, Integers, Mixed, Mixed]);
        assert_eq!(Floats.hold(Stat::Int(2046)), Stat::Float(2046.0));
        met.add(&[Stat::None, Stat::None, Stat::None, Stat::None]);
        assert_eq!(met.types(), [Mixed; 4]);
        assert!(met.is_settled());
    }

    #[test]
    fn numbers_only_are_one_block() {
        let mut met = Met::default();
        met.add(&[Stat::Int(1), Stat::Int(2), Stat::Float(1.0), Stat::Float(1.0)]);
        assert_eq!(met.types(), [ColumnType::Floats; 4]);
    }
}
