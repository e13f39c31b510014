//! Plain values as a person would write them: what a call is given on one side and on the other.
//!
//! Files keep values as JSON, to the last digit. A sentence wants Python's spelling, and no more digits than it takes to
//! tell the two apart.

use ulpscope_report::format_apart;

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
                (Ok(one), Ok(other)) if self.said.contains('.') => format_apart(one, other, TYPED_DIGITS),
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
