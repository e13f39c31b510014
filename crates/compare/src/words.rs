//! The English text of rows: the observation at an entry, and the evidence of a finding.
//!
//! Files keep values as JSON, with all digits. A sentence uses Python's spelling, and only as many digits as show the
//! difference.

use ulpscope_report::{format_apart, format_count, format_digits, format_ratio, format_short};

use crate::fact::{ArgumentDifference, Fact, Likeness, NonFiniteCount, Plain, Statistics};
use crate::finding::{Finding, Measure, Part};
use crate::region::Region;
use crate::style::Side;

/// Significant digits of a typed number.
const TYPED_DIGITS: usize = 6;

/// The names of [`Statistics`].
const STATISTICS: [&str; 4] = ["max", "min", "mean", "norm"];

/// The observation at an entry.
pub fn fact(fact: &Fact) -> String {
    match fact {
        Fact::Elements { distance, largest, likeness } => {
            let (distance, largest) = (format_short(*distance), format_short(*largest));
            let text = format!("relative distance {distance}, largest error {largest}");
            match likeness {
                None => text,
                Some(Likeness::FewElements { differ, of }) => format!("{text}, in {}", some(*differ, *of)),
                Some(Likeness::Zero) => format!("{text}, as if it were zero"),
                Some(Likeness::SignFlipped) => format!("{text}, as if its sign were flipped"),
                Some(Likeness::Factor(by)) => format!("{text}, as if multiplied by {}", factor(*by)),
            }
        }
        Fact::Statistics { target, golden } => {
            let apart = statistics_apart(target, golden);
            let apart = apart.iter().map(|(name, one, other)| format!("{name} {one} against {other}"));
            format!("by statistics, target against golden: {}", apart.collect::<Vec<String>>().join(", "))
        }
        Fact::ElementsDiffer { differ, of, .. } => format!("{} differ", some(*differ, *of)),
        Fact::NonFinite { elements, counts: [target, golden] } => {
            let elements = match elements {
                1 => "1 element is".to_owned(),
                count => format!("{} elements are", format_count(*count)),
            };
            let (target, golden) = (non_finite(*target), non_finite(*golden));
            format!(
                "{elements} NaN or infinite on one side only: {target} in the target, {golden} in the golden"
            )
        }
        Fact::NonFiniteStatistics(side) => {
            format!("NaN or infinite statistics in the {} only", side.word())
        }
        Fact::BothNan { elements: 0 } => {
            "the statistics of both sides are NaN, so they cannot be compared".to_owned()
        }
        Fact::BothNan { elements: 1 } => "1 element is NaN on both sides; all others agree".to_owned(),
        Fact::BothNan { elements } => {
            format!("{} elements are NaN on both sides; all others agree", format_count(*elements))
        }
        Fact::DigestsDiffer => "digest".to_owned(),
        Fact::OnlyDigestsDiffer => "digests differ and statistics do not: dump tensors".to_owned(),
        Fact::NothingInCommon => "neither elements nor statistics on both sides".to_owned(),
        Fact::Uninitialised => "uninitialised memory".to_owned(),
        Fact::Devices => "devices".to_owned(),
        Fact::Objects => "objects that are no tensors".to_owned(),
        Fact::Values { target, golden } => format!("{} against {}", bare(target), bare(golden)),
        Fact::Kinds { target, golden } => format!("{} against {}", plain(target), plain(golden)),
        Fact::Shapes { target, golden } => shapes(target, golden),
        Fact::Reshaped { target, golden, elements } => {
            let seen = elements.as_ref().map(|seen| format!("{}; ", self::fact(seen))).unwrap_or_default();
            format!("{seen}{}, compared in order", shapes(target, golden))
        }
        Fact::OnlyIn { side, value } => format!("{} in the {} only", plain(value), side.word()),
        Fact::Unpaired(reason) => reason.clone(),
        Fact::Unread => "the call could not be read".to_owned(),
        Fact::InheritedFrom(call) => format!("from {call}"),
        Fact::Unexplained => {
            "a final result differs by more than accumulated rounding allows, and no call explains it"
                .to_owned()
        }
    }
}

/// A factor, with the digits that distinguish it from 1.
pub fn factor(by: f64) -> String {
    // For a factor near 1, the distance from 1 matters.
    let digits = if (by - 1.0).abs() < 0.1 { 4 } else { 3 };
    format_apart(by, 1.0, digits).0
}

/// The statistics that look different, with as few digits as show a difference at all: name, target, golden.
pub fn statistics_apart(target: &Statistics, golden: &Statistics) -> Vec<(&'static str, String, String)> {
    let pairs = || STATISTICS.into_iter().zip(target.iter().zip(golden));
    let apart = |digits: usize| -> Vec<(&'static str, String, String)> {
        let shown = pairs().filter_map(|(name, (one, other))| Some((name, one.as_ref()?, other.as_ref()?)));
        let shown = shown
            .map(|(name, one, other)| (name, format_digits(*one, digits), format_digits(*other, digits)));
        shown.filter(|(_, one, other)| one != other).collect()
    };
    (3..=17).map(apart).find(|apart| !apart.is_empty()).unwrap_or_default()
}

/// `48 of 9,216 elements`
fn some(differ: u64, of: u64) -> String {
    format!("{} of {} elements", format_count(differ), format_count(of))
}

fn non_finite(count: NonFiniteCount) -> String {
    let (nan, infinite) = (format_count(count.nan), format_count(count.infinite));
    match (count.nan, count.infinite) {
        (0, 0) => "none".to_owned(),
        (_, 0) => format!("{nan} NaN"),
        (0, _) => format!("{infinite} infinite"),
        (_, _) => format!("{nan} NaN and {infinite} infinite"),
    }
}

fn shapes(target: &[u64], golden: &[u64]) -> String {
    format!("shape {target:?} against {golden:?}")
}

/// The content of an entry, in a word or two.
fn plain(value: &Plain) -> String {
    match value {
        Plain::None => "None".to_owned(),
        Plain::Tensor(dtype) => format!("a tensor of {dtype}"),
        Plain::Scalar { kind, json } => format!("{kind} {json}"),
        Plain::Object => "an object".to_owned(),
    }
}

/// A value without its type.
fn bare(value: &Plain) -> String {
    match value {
        Plain::Scalar { json, .. } => json.clone(),
        Plain::None | Plain::Tensor(_) | Plain::Object => plain(value),
    }
}

/// The name of an argument: `value` for `input.value`, `input.1` if it has only a number.
pub fn argument_name(entry: &str) -> &str {
    let name = entry.strip_prefix("input.").filter(|name| name.starts_with(char::is_alphabetic));
    name.unwrap_or(entry)
}

/// Two values as a person would type them in Python.
pub fn typed_values(target: &Plain, golden: &Plain) -> (String, String) {
    let number = |value: &Plain| match value {
        Plain::Scalar { json, .. } if json.contains('.') => json.parse().ok(),
        _ => None,
    };
    match (number(target), number(golden)) {
        (Some(one), Some(other)) => format_apart(one, other, TYPED_DIGITS),
        _ => (typed(target), typed(golden)),
    }
}

/// A value as a person would type it in Python.
pub fn typed(value: &Plain) -> String {
    match value {
        Plain::Scalar { kind, json } => match json.as_str() {
            "true" => "True".to_owned(),
            "false" => "False".to_owned(),
            "null" => "None".to_owned(),
            list if kind == "slice" => slice(list).unwrap_or_else(|| list.to_owned()),
            other => other.to_owned(),
        },
        Plain::None | Plain::Tensor(_) | Plain::Object => plain(value),
    }
}

/// `[32, null, null]` as `32:`.
fn slice(list: &str) -> Option<String> {
    let parts = list.strip_prefix('[')?.strip_suffix(']')?.split(',');
    let parts: Vec<&str> = parts.map(|part| if part.trim() == "null" { "" } else { part.trim() }).collect();
    match parts[..] {
        [start, stop, ""] => Some(format!("{start}:{stop}")),
        [start, stop, step] => Some(format!("{start}:{stop}:{step}")),
        _ => None,
    }
}

/// Arguments that differ: `value=0.05 against 0.001 in the golden`, `approximate="tanh" in the target only`.
pub fn arguments(differences: &[ArgumentDifference]) -> String {
    let words = differences.iter().map(|ArgumentDifference { entry, fact }| {
        let name = argument_name(entry);
        match fact {
            Some(Fact::Values { target, golden }) => {
                let (target, golden) = typed_values(target, golden);
                format!("{name}={target} against {golden} in the golden")
            }
            Some(Fact::OnlyIn { side, value: Plain::Tensor(_) }) => {
                format!("{entry}, a tensor, in the {} only", side.word())
            }
            Some(Fact::OnlyIn { side, value }) => {
                format!("{name}={} in the {} only", typed(value), side.word())
            }
            Some(other) => format!("{name}: {}", self::fact(other)),
            None => name.to_owned(),
        }
    });
    words.collect::<Vec<String>>().join(", ")
}

/// Where two programs part, for a row.
pub(crate) fn region(region: &Region) -> String {
    let counts = [&region.target, &region.golden].map(|calls| calls.computing.len());
    let calls = |count: usize| if count == 1 { "1 call".to_owned() } else { format!("{count} calls") };
    let after = region.after.first().map(|[target, _]| format!("after {}, which agrees, and ", target.name));
    format!(
        "the two programs part {}before {}, which differs: {} of the target, {} of the golden",
        after.unwrap_or_default(),
        region.before[0].name,
        calls(counts[0]),
        calls(counts[1]),
    )
}

/// The evidence of a finding, for a row: the cause, the observation, and the ratio to the expected error.
pub(crate) fn evidence(finding: &Finding) -> String {
    let seen = finding.seen.as_ref().map(fact);
    let cause = Some(finding.cause.evidence()).filter(|cause| !cause.is_empty());
    let begin: Vec<String> = cause.into_iter().chain(seen).collect();
    let measure = finding.measure.as_ref().filter(|_| finding.cause.traits().is_excess);
    let like = finding
        .looks_like
        .map(|precision| format!("as much as if it were computed in {}", precision.words()));
    let parts = [Some(begin.join(": ")), measure.map(excess), like].into_iter().flatten();
    parts.filter(|part| !part.is_empty()).collect::<Vec<String>>().join("; ")
}

/// How much an error exceeds the expected one, as text.
fn excess(measure: &Measure) -> String {
    let (part, times) = measure.part;
    if !times.is_finite() {
        return "its inputs agree".to_owned();
    }
    let times = format!("{} × what rounding and its inputs allow", format_ratio(times));
    match part {
        _ if measure.is_behind => format!("what is computed from it differs by {times}"),
        Part::Whole => times,
        Part::WorstElement => format!("its worst element differs by {times}"),
        // Statistics cannot distinguish a factor from a few elements.
        Part::CommonFactor if measure.distance.is_none() => format!("its norm differs by {times}"),
        Part::CommonFactor => format!("its overall scale differs by {times}"),
    }
}

/// That a call just before it is on one side only.
pub(crate) fn just_before(name: &str, side: Side) -> String {
    format!("; just before it, {name} is only in the {}", side.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar(kind: &str, json: &str) -> Plain {
        Plain::Scalar { kind: kind.to_owned(), json: json.to_owned() }
    }

    #[test]
    fn arguments_read_as_a_person_writes_them() {
        for (entry, kind, [target, golden], expected) in [
            (
                "input.value",
                "float",
                ["0.050000000000000044", "0.0010000000000000009"],
                "value=0.05 against 0.001 in the golden",
            ),
            ("input.1", "float", ["2.5", "2"], "input.1=2.5 against 2 in the golden"),
            ("input.1", "float", ["0.99998", "0.99999"], "input.1=0.99998 against 0.99999 in the golden"),
            (
                "input.1",
                "float",
                ["0.99999998", "0.99999999"],
                "input.1=0.99999998 against 0.99999999 in the golden",
            ),
            ("input.5", "bool", ["true", "false"], "input.5=True against False in the golden"),
            (
                "input.1.1",
                "slice",
                ["[32, null, null]", "[null, 32, null]"],
                "input.1.1=32: against :32 in the golden",
            ),
            ("input.1", "slice", ["[0, 8, 2]", "[0, 8, null]"], "input.1=0:8:2 against 0:8 in the golden"),
        ] {
            let (target, golden) = (scalar(kind, target), scalar(kind, golden));
            let fact = Some(Fact::Values { target, golden });
            let difference = ArgumentDifference { entry: entry.to_owned(), fact };
            assert_eq!(arguments(&[difference]), expected);
        }
    }

    #[test]
    fn an_argument_of_one_side_is_said_to_be_one() {
        let only = |side, value| {
            let fact = Some(Fact::OnlyIn { side, value });
            arguments(&[ArgumentDifference { entry: "input.approximate".to_owned(), fact }])
        };
        assert_eq!(only(Side::Target, scalar("str", "\"tanh\"")), "approximate=\"tanh\" in the target only");
        assert_eq!(only(Side::Golden, Plain::Object), "approximate=an object in the golden only");
    }

    #[test]
    fn counts_of_elements_have_their_thousands_grouped() {
        let few = Some(Likeness::FewElements { differ: 48, of: 9216 });
        assert_eq!(
            fact(&Fact::Elements { distance: 0.5, largest: 2.0, likeness: few }),
            "relative distance 0.5, largest error 2, in 48 of 9,216 elements"
        );
        let counts = [NonFiniteCount { nan: 2832, infinite: 10_000 }, NonFiniteCount { nan: 0, infinite: 0 }];
        assert_eq!(
            fact(&Fact::NonFinite { elements: 12_832, counts }),
            "12,832 elements are NaN or infinite on one side only: 2,832 NaN and 10,000 infinite in the target, none in \
             the golden"
        );
    }
}
