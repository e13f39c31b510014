//! What is said of a finding: the evidence in a row, and plain values as a person would write them.
//!
//! Files keep values as JSON, to the last digit. A sentence wants Python's spelling, and no more digits than it takes to
//! tell the two apart.

use ulpscope_report::{format_apart, format_short};

use crate::style::{FindingCause, Measure, Part};

/// Significant digits of a number that somebody typed in.
const TYPED_DIGITS: usize = 6;

/// A plain argument of a call, as the rows have it.
pub(crate) struct Argument<'a> {
    /// Role and position: `input.1`, `input.value`.
    pub(crate) entry: &'a str,
    /// What a row says of it: `2.5 against 2`, `str "tanh" in the target only`.
    pub(crate) said: &'a str,
    /// What kind of value the two sides have.
    pub(crate) kinds: [&'a str; 2],
}

impl Argument<'_> {
    /// For a sentence: `value=0.05 against 0.001 in the golden`, `approximate="tanh" in the target only`.
    pub(crate) fn words(&self) -> String {
        let name = self.entry.strip_prefix("input.").filter(|name| name.starts_with(char::is_alphabetic));
        let name = name.unwrap_or(self.entry);
        if let Some((target, golden)) = self.said.split_once(" against ") {
            let (target, golden) = match (target.parse(), golden.parse()) {
                (Ok(one), Ok(other)) if target.contains('.') && golden.contains('.') => {
                    format_apart(one, other, TYPED_DIGITS)
                }
                _ => (value(target, self.kinds[0]), value(golden, self.kinds[1])),
            };
            return format!("{name}={target} against {golden} in the golden");
        }
        for (side, kind) in ["target", "golden"].into_iter().zip(self.kinds) {
            let only = format!(" in the {side} only");
            if let Some(said) = self.said.strip_suffix(&only) {
                let plain = said.strip_prefix(kind).map_or(said, str::trim_start);
                return format!("{name}={}{only}", value(plain, kind));
            }
        }
        format!("{name}: {}", self.said)
    }
}

fn value(json: &str, kind: &str) -> String {
    match json {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "null" => "None".to_owned(),
        list if kind == "slice" => slice(list).unwrap_or_else(|| list.to_owned()),
        other => other.to_owned(),
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

/// The evidence of a finding, for a row.
pub(crate) fn evidence(cause: &FindingCause, seen: &str, measure: Option<&Measure>) -> String {
    let told = |begin: &str| match seen {
        "" => begin.to_owned(),
        seen => format!("{begin}: {seen}"),
    };
    match cause {
        FindingCause::Cut(side) => format!("no gradient passes it in the {}", side.word()),
        FindingCause::Sum => {
            let excess = measure.map(excess).unwrap_or_default();
            let told = told(
                "no recorded call explains it: left over (zero_grad), changed by a hook, or made unrecorded",
            );
            if excess.is_empty() { told } else { format!("{told}; {excess}") }
        }
        FindingCause::ArgumentsInBackward(arguments) => {
            told(&format!("called with {arguments}, which shows in the gradients alone"))
        }
        FindingCause::Made | FindingCause::Arguments(_) => {
            let called = match cause {
                FindingCause::Arguments(arguments) => format!("called with {arguments}"),
                _ => String::new(),
            };
            let excess = measure.map(excess).unwrap_or_default();
            let parts = [called, seen.to_owned(), excess].into_iter().filter(|text| !text.is_empty());
            parts.collect::<Vec<String>>().join("; ")
        }
        FindingCause::Origin => told("it is not the same in the two runs"),
        FindingCause::Cast => told("one side alone computes it in a coarser dtype"),
        FindingCause::Draw => told("it draws other random numbers"),
        FindingCause::Between => {
            told("whoever made it agrees, so it was changed on the way by something that was not recorded")
        }
        FindingCause::Lone(_) => {
            "only one side has this call, and what is computed from it is another".to_owned()
        }
        FindingCause::Left(_, name) => {
            format!("only one side has this call, and what the step leaves in the {name} is another")
        }
        FindingCause::Wiring => told("the two runs take it from different calls"),
        FindingCause::GivenShape => {
            told("it works on another shape, and what is computed from it is another")
        }
        FindingCause::Shape => told("its arguments have the same shapes, its result has not"),
        FindingCause::NonFinite => told("everything it works on is finite"),
        FindingCause::BothNonFinite => {
            told("everything it works on is finite, and both runs go wrong the same way")
        }
        FindingCause::Rule => seen.to_owned(),
    }
}

/// How far an error is beyond what was expected, in words.
fn excess(measure: &Measure) -> String {
    let (part, times) = measure.part;
    if !times.is_finite() {
        return "its arguments agree".to_owned();
    }
    let what = match part {
        _ if measure.is_behind => "what is computed from it is off ",
        Part::Whole => "",
        Part::WorstElement => "its worst element is off ",
        // Statistics cannot tell a factor from a few elements.
        Part::CommonFactor if measure.distance.is_none() => "its norm is off ",
        Part::CommonFactor => "a common factor, which scales all its elements alike, is off ",
    };
    format!("{what}{} × what rounding and its arguments explain", format_short(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_read_as_a_person_writes_them() {
        let words = |entry, said, kind| Argument { entry, said, kinds: [kind; 2] }.words();
        for (entry, said, kind, expected) in [
            (
                "input.value",
                "0.050000000000000044 against 0.0010000000000000009",
                "float",
                "value=0.05 against 0.001 in the golden",
            ),
            ("input.1", "2.5 against 2", "float", "input.1=2.5 against 2 in the golden"),
            ("input.1", "0.99998 against 0.99999", "float", "input.1=0.99998 against 0.99999 in the golden"),
            (
                "input.1",
                "0.99999998 against 0.99999999",
                "float",
                "input.1=0.99999998 against 0.99999999 in the golden",
            ),
            ("input.5", "true against false", "bool", "input.5=True against False in the golden"),
            (
                "input.approximate",
                "str \"tanh\" in the target only",
                "str",
                "approximate=\"tanh\" in the target only",
            ),
            (
                "input.1.1",
                "[32, null, null] against [null, 32, null]",
                "slice",
                "input.1.1=32: against :32 in the golden",
            ),
            ("input.1", "[0, 8, 2] against [0, 8, null]", "slice", "input.1=0:8:2 against 0:8 in the golden"),
            ("input.1", "an object in the golden only", "object", "input.1=an object in the golden only"),
        ] {
            assert_eq!(words(entry, said, kind), expected);
        }
    }
}
