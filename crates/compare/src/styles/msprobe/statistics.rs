//! Differences of statistics. Texts are compared first; different texts are classified by kind.

use std::borrow::Cow;

use ulpscope_formats::json::python_float_repr;
use ulpscope_report::Cell;

use super::item::Stat;

/// A relative difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RelativeError {
    /// Both texts are the same.
    Zero,
    /// In percent.
    Percent(f64),
    /// Golden is zero, or one side is infinite.
    Infinite,
    /// Infinite the other way.
    NegativeInfinite,
    /// One side is NaN.
    Nan,
    /// One side is absent.
    Absent,
    /// Words that differ.
    Different,
}

impl RelativeError {
    /// As the cell says it.
    fn text(self) -> Cow<'static, str> {
        match self {
            RelativeError::Zero => "0".into(),
            RelativeError::Percent(percent) => (python_float_repr(percent) + "%").into(),
            RelativeError::Infinite => "inf".into(),
            RelativeError::NegativeInfinite => "-inf".into(),
            RelativeError::Nan => "Nan".into(),
            RelativeError::Absent => "N/A".into(),
            RelativeError::Different => "Diff".into(),
        }
    }

    /// The share, where it is one in percent.
    pub(crate) fn share(self) -> Option<f64> {
        match self {
            RelativeError::Percent(percent) => Some(percent / 100.0),
            _ => None,
        }
    }

    /// The size of it as a float, zero for words.
    pub(crate) fn size(self) -> f64 {
        match self {
            RelativeError::Percent(percent) => (percent / 100.0).abs(),
            RelativeError::Infinite | RelativeError::NegativeInfinite => f64::INFINITY,
            RelativeError::Nan => f64::NAN,
            RelativeError::Zero | RelativeError::Absent | RelativeError::Different => 0.0,
        }
    }
}

/// The difference of one statistic: two cells, and what the rules need of them.
pub(crate) struct Difference {
    pub(crate) absolute: Cell,
    pub(crate) relative: Cell,
    pub(crate) error: RelativeError,
}

impl Difference {
    /// The same word in both cells.
    fn word(error: RelativeError) -> Difference {
        let text = error.text();
        Difference { absolute: Cell::text(text.clone()), relative: Cell::text(text), error }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Number(f64),
    Nan,
    Infinite,
    NegativeInfinite,
    Device,
    Absent,
    Other,
}

/// The difference of two statistics. `integers` says that both columns hold nothing else, so that the difference
/// is one, too.
pub(crate) fn difference(target: &Stat<'_>, golden: &Stat<'_>, integers: bool) -> Difference {
    use Kind::{Absent, Device, Infinite, Nan, NegativeInfinite, Number, Other};
    if same_text(target, golden) {
        return Difference::word(RelativeError::Zero);
    }
    match (Kind::of(target), Kind::of(golden)) {
        (Number(n), Number(b)) => {
            let difference = n - b;
            let error = if b == 0.0 {
                RelativeError::Infinite
            } else {
                RelativeError::Percent((difference / b * 100.0).abs())
            };
            let absolute = match (target, golden) {
                (Stat::Int(n), Stat::Int(b)) if integers => {
                    n.checked_sub(*b).map_or(Cell::Exact(difference), Cell::Int)
                }
                _ => Cell::text(python_float_repr(difference)),
            };
            Difference { absolute, relative: Cell::text(error.text()), error }
        }
        (Absent, _) | (_, Absent) | (Device, Device) => Difference::word(RelativeError::Absent),
        (Device | Other, _) | (_, Device | Other) => Difference::word(RelativeError::Different),
        (Nan, _) | (_, Nan) => Difference::word(RelativeError::Nan),
        (Infinite, Infinite) | (NegativeInfinite, NegativeInfinite) => {
            Difference::word(RelativeError::Absent)
        }
        (Infinite, _) | (Number(_), NegativeInfinite) => Difference::word(RelativeError::Infinite),
        (NegativeInfinite, _) | (Number(_), Infinite) => Difference::word(RelativeError::NegativeInfinite),
    }
}

fn same_text(target: &Stat<'_>, golden: &Stat<'_>) -> bool {
    match (target, golden) {
        (Stat::Float(n), Stat::Float(b)) => n.to_bits() == b.to_bits(),
        (Stat::Int(n), Stat::Int(b)) => n == b,
        _ => target.text() == golden.text(),
    }
}

impl Kind {
    fn of(stat: &Stat<'_>) -> Kind {
        let text = match stat {
            Stat::Float(number) if number.is_nan() => return Kind::Nan,
            Stat::Float(number) if *number == f64::INFINITY => return Kind::Infinite,
            Stat::Float(number) if *number == f64::NEG_INFINITY => return Kind::NegativeInfinite,
            Stat::Float(number) => return Kind::Number(*number),
            Stat::Int(number) => return Kind::Number(*number as f64),
            Stat::Bool(_) | Stat::None => return Kind::Other,
            Stat::Text(text) => text.to_lowercase(),
        };
        match text.as_str() {
            "nan" => Kind::Nan,
            "inf" => Kind::Infinite,
            "-inf" => Kind::NegativeInfinite,
            "n/a" if stat.text() == "N/A" => Kind::Absent,
            text => match number_in(text) {
                Some(number) => Kind::Number(number),
                // As the tool looks for them: `input` has one in it.
                None if ["npu", "cpu", "cuda"].iter().any(|device| text.contains(device)) => Kind::Device,
                None => Kind::Other,
            },
        }
    }
}

/// The number a text spells, if it spells one.
fn number_in(text: &str) -> Option<f64> {
    let text = text.trim_ascii();
    let plain = |c: u8| c.is_ascii_digit() || matches!(c, b'+' | b'-' | b'.' | b'e');
    if text.bytes().all(plain) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(target: Stat<'_>, golden: Stat<'_>) -> (String, String) {
        let difference = difference(&target, &golden, false);
        (difference.absolute.to_string(), difference.relative.to_string())
    }

    fn word(text: &str) -> Stat<'_> {
        Stat::Text(text.into())
    }

    #[test]
    fn kinds_decide() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(texts(Stat::Float(1.5), Stat::Float(1.0)), pair("0.5", "50.0%"));
        assert_eq!(texts(Stat::Int(1), Stat::Float(1.0)), pair("0.0", "0.0%"));
        assert_eq!(texts(Stat::Float(1.5), Stat::Float(0.0)), pair("1.5", "inf"));
        assert_eq!(texts(Stat::Float(f64::INFINITY), Stat::Float(f64::INFINITY)), pair("0", "0"));
        assert_eq!(texts(Stat::Float(1.0), Stat::Float(f64::INFINITY)), pair("-inf", "-inf"));
        assert_eq!(texts(word("Nan"), Stat::Float(f64::INFINITY)), pair("Nan", "Nan"));
        assert_eq!(texts(word("Nan"), word("Nan")), pair("0", "0"));
        assert_eq!(texts(word("None"), Stat::Float(1.0)), pair("Diff", "Diff"));
        assert_eq!(texts(word("None"), word("N/A")), pair("N/A", "N/A"));
        assert_eq!(texts(word("npu:0"), word("cpu")), pair("N/A", "N/A"));
        assert_eq!(texts(Stat::Bool(true), Stat::Bool(false)), pair("Diff", "Diff"));
        let integers = difference(&Stat::Int(7), &Stat::Int(2), true);
        assert_eq!((integers.absolute, integers.relative), (Cell::Int(5), Cell::text("250.0%")));
    }
}
