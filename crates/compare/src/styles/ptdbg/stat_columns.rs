//! How pandas prints a column of statistics: whole numbers among fractions get a fraction of their own.
//!
//! A column of numbers only becomes one of doubles as soon as one of them is a double, and then `1` prints as `1.0`.
//! One truth value or text in it, and every value prints as it was.

use ulpscope_formats::json::Json;
use ulpscope_report::Cell;

use super::super::python_text;

/// What has been seen in the columns max, min and mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StatColumns([Seen; 3]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    fraction: bool,
    other: bool,
}

impl StatColumns {
    /// Takes in the statistics of a line.
    pub(super) fn take(&mut self, stats: &[Json; 4]) {
        for (seen, value) in self.0.iter_mut().zip(stats) {
            match value {
                Json::Int(_) => {}
                Json::Float(_) | Json::Null => seen.fraction = true,
                _ => seen.other = true,
            }
        }
    }

    /// Takes in all lines of an operation.
    pub(super) fn take_all(&mut self, more: &StatColumns) {
        for (seen, more) in self.0.iter_mut().zip(more.0) {
            seen.fraction |= more.fraction;
            seen.other |= more.other;
        }
    }

    /// Takes in a text.
    pub(super) fn take_text(&mut self) {
        self.0.iter_mut().for_each(|seen| seen.other = true);
    }

    /// The cells of a line: NaN prints as nothing.
    pub(super) fn cells(&self, stats: &[Json; 4]) -> [Cell; 3] {
        std::array::from_fn(|column| {
            let doubles = self.0[column].fraction && !self.0[column].other;
            match &stats[column] {
                Json::Null => Cell::Missing,
                Json::Float(number) if number.is_nan() => Cell::Missing,
                Json::Float(number) => Cell::Exact(*number),
                Json::Int(number) if doubles => Cell::Exact(*number as f64),
                Json::Int(number) => Cell::Int(*number),
                other => Cell::Text(python_text::text(other)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_turns_whole_numbers_into_fractions() {
        let line = |value: Json| [value.clone(), value.clone(), value, Json::Null];
        let mut columns = StatColumns::default();
        columns.take(&line(Json::Int(3)));
        assert_eq!(columns.cells(&line(Json::Int(3)))[0], Cell::Int(3));
        columns.take(&line(Json::Float(f64::NAN)));
        assert_eq!(columns.cells(&line(Json::Int(3)))[0], Cell::Exact(3.0));
        assert_eq!(columns.cells(&line(Json::Float(f64::NAN)))[0], Cell::Missing);
        columns.take(&line(Json::Bool(true)));
        assert_eq!(columns.cells(&line(Json::Int(3)))[0], Cell::Int(3));
        assert_eq!(columns.cells(&line(Json::Bool(true)))[0], Cell::text("True"));
        assert_eq!(columns.cells(&line(Json::List(Vec::new())))[0], Cell::text("[]"));
    }
}
