//! The calls of a rank, as its rows show them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use ulpscope_report::page::ColumnValue;

use crate::names::{TreePlace, call_of_entry};
use crate::result::RowValues;

/// The worst verdict of the rows of a call, worst last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gravity {
    /// In agreement.
    #[default]
    Pass,
    /// Nothing to compare.
    NotCompared,
    /// Worth a look.
    Warn,
    /// Not in agreement.
    Fail,
}

impl Gravity {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Gravity::Pass => "pass",
            Gravity::NotCompared => "not compared",
            Gravity::Warn => "warn",
            Gravity::Fail => "fail",
        }
    }
}

/// One call, or one tensor without a call.
#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    /// Its name in the target, or in the golden if the target lacks it.
    pub(crate) name: String,
    /// Its name in the golden.
    pub(crate) golden: Option<String>,
    /// Whether the target has it, and the golden.
    pub(crate) sides: [bool; 2],
    pub(crate) place: TreePlace,
    pub(crate) class: Option<String>,
    pub(crate) gravity: Gravity,
    pub(crate) row: u64,
    pub(crate) rows: u64,
    /// Hashes of the names of its entries, row by row.
    pub(crate) entries: Vec<u64>,
    pub(crate) error: Option<f64>,
    pub(crate) expected: Option<f64>,
    pub(crate) code: Option<String>,
}

impl CallRecord {
    /// `both`, `target` or `golden`.
    pub(crate) fn side(&self) -> &'static str {
        match self.sides {
            [true, false] => "target",
            [false, true] => "golden",
            _ => "both",
        }
    }
}

/// Where the values of a call are in a row.
#[derive(Debug, Default)]
struct CallLayout {
    call: Option<usize>,
    entry: Option<usize>,
    names: [Option<usize>; 2],
    verdict: Option<usize>,
    class: Option<usize>,
    expected: Option<usize>,
    distance: Option<usize>,
    cosine: Option<usize>,
    norms: [Option<usize>; 2],
    module: Option<usize>,
    code: Option<usize>,
}

impl CallLayout {
    fn of(columns: &[String]) -> CallLayout {
        let at =
            |names: &[&str]| names.iter().find_map(|name| columns.iter().position(|column| column == name));
        CallLayout {
            call: at(&["call"]),
            entry: at(&["entry"]),
            names: [at(&["target_name", "NPU Name"]), at(&["golden_name", "Bench Name"])],
            verdict: at(&["verdict", "Result", "Accuracy Reached or Not"]),
            class: at(&["class"]),
            expected: at(&["expected"]),
            distance: at(&["rel_l2"]),
            cosine: at(&["Cosine"]),
            norms: [at(&["target_norm"]), at(&["golden_norm"])],
            module: at(&["module"]),
            code: at(&["code"]),
        }
    }
}

/// Groups rows into calls.
#[derive(Debug, Default)]
pub(crate) struct CallCollector {
    columns: Vec<String>,
    layout: CallLayout,
    rows: u64,
    /// Hashes of the entries of the current call: an entry that comes again belongs to a new call of the same name.
    entries: HashSet<u64>,
    /// How telling the error of the current call is.
    rating: (u8, f64),
    pub(crate) calls: Vec<CallRecord>,
}

impl CallCollector {
    /// Adds the next row.
    pub(crate) fn push(&mut self, columns: &[String], values: &dyn RowValues) {
        if columns != self.columns {
            self.columns = columns.to_vec();
            self.layout = CallLayout::of(columns);
        }
        let text = |at: Option<usize>| match at.map(|at| values.value(at)) {
            Some(ColumnValue::Text(text)) if text != "N/A" => Some(text),
            _ => None,
        };
        let number = |at: Option<usize>| match at.map(|at| values.value(at)) {
            Some(ColumnValue::Number(number)) => Some(number),
            _ => None,
        };
        let layout = &self.layout;
        let [target, golden] = layout.names.map(text);
        let of_entry = || target.or(golden).map_or(Cow::Borrowed(""), call_of_entry);
        let name = text(layout.call).map_or_else(of_entry, Cow::Borrowed);
        let entry = text(layout.entry).or(target).or(golden).unwrap_or_default();
        let verdict = text(layout.verdict).unwrap_or_default();
        // The row of a call without a counterpart stands for all its entries.
        let has = match [target.is_some(), golden.is_some()] {
            [false, false] => [verdict == "only in target", verdict == "only in golden"],
            has => has,
        };
        let is_new = match self.calls.last() {
            Some(last) => last.name != name || self.entries.contains(&hashed(entry)),
            None => true,
        };
        if is_new {
            self.entries.clear();
            self.rating = (0, f64::NEG_INFINITY);
            self.calls.push(CallRecord {
                name: name.to_string(),
                golden: None,
                sides: [false; 2],
                place: TreePlace::of(&name, text(layout.module)),
                class: text(layout.class).map(str::to_owned),
                gravity: Gravity::default(),
                row: self.rows,
                rows: 0,
                entries: Vec::new(),
                error: None,
                expected: None,
                code: text(layout.code).map(str::to_owned),
            });
        }
        self.entries.insert(hashed(entry));
        self.rows += 1;
        let Some(call) = self.calls.last_mut() else { return };
        call.rows += 1;
        call.entries.push(target.or(golden).map_or(0, hashed));
        call.sides = [call.sides[0] || has[0], call.sides[1] || has[1]];
        if call.golden.is_none() {
            call.golden = golden.map(|golden| call_of_entry(golden).into_owned());
        }
        let is_result = !entry.starts_with("input") && !entry.starts_with("parameter.");
        call.gravity = call.gravity.max(gravity(verdict, call.class.as_deref(), is_result));
        let expected = number(layout.expected);
        // Where one side alone is not finite, no distance is a number.
        let is_not_finite = verdict == "not finite"
            || !matches!(verdict, "equal" | "both NaN" | "not compared")
                && number(layout.distance).is_some_and(f64::is_nan);
        let distance = if is_not_finite {
            Some(f64::INFINITY)
        } else {
            let norms = layout.norms.map(number);
            number(layout.distance)
                .or_else(|| number(layout.cosine).map(|cosine| (1.0 - cosine).max(0.0)))
                .or_else(|| difference_of_norms(norms))
        };
        let Some(distance) = distance.filter(|distance| !distance.is_nan()) else { return };
        // What is not finite tells most, then the row that was judged, then results, then what the call was given.
        let rating =
            (u8::from(is_result) + 2 * u8::from(expected.is_some()) + 4 * u8::from(is_not_finite), distance);
        if rating > self.rating {
            self.rating = rating;
            call.error = Some(distance);
            call.expected = expected;
        }
    }
}

/// A short stand-in for a name: a page may have millions of rows.
pub(crate) fn hashed(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// How far apart two tensors are at least, by their norms.
fn difference_of_norms(norms: [Option<f64>; 2]) -> Option<f64> {
    let [Some(target), Some(golden)] = norms else { return None };
    let difference = (target - golden).abs();
    Some(if difference == 0.0 { 0.0 } else { difference / golden.abs() })
}

/// What a verdict in words means.
fn gravity(verdict: &str, class: Option<&str>, is_result: bool) -> Gravity {
    let is_finding = matches!(
        class,
        Some("diverged here" | "origin differs" | "non-finite born here" | "different program")
    );
    match verdict {
        "differs" if is_finding && is_result => Gravity::Fail,
        "differs" | "not finite" | "both NaN" | "only in target" | "only in golden" => Gravity::Warn,
        "inherited" | "unexplained" => Gravity::Fail,
        "not compared" => Gravity::NotCompared,
        // The words of older tools.
        "No" | "error" | "Different" => Gravity::Fail,
        "warning" => Gravity::Warn,
        "Nan" | "None" | "unsupported" => Gravity::NotCompared,
        // The row that shows what its call did.
        verdict if is_finding && class == Some(verdict) => Gravity::Fail,
        _ => Gravity::Pass,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [&str; 7] = ["call", "entry", "verdict", "class", "rel_l2", "target_name", "golden_name"];

    fn collected(rows: &[[&str; 7]]) -> Vec<CallRecord> {
        let columns = COLUMNS.map(str::to_owned);
        let mut collector = CallCollector::default();
        for row in rows {
            let value = |text: &&'static str| match *text {
                "" => ColumnValue::Missing,
                text => text.parse().map_or(ColumnValue::Text(text), ColumnValue::Number),
            };
            // The tests have static texts.
            let row: Vec<&'static str> =
                row.iter().map(|text| Box::leak((*text).to_owned().into_boxed_str()) as &str).collect();
            let values: Vec<ColumnValue<'_>> = row.iter().map(value).collect();
            collector.push(&columns, &values.as_slice());
        }
        collector.calls
    }

    #[test]
    fn rows_of_a_call_are_one_call() {
        let calls = collected(&[
            [
                "F.a.0.forward",
                "input.0",
                "equal",
                "diverged here",
                "9",
                "F.a.0.forward.input.0",
                "F.b.0.forward.input.0",
            ],
            [
                "F.a.0.forward",
                "output.0",
                "diverged here",
                "diverged here",
                "0.5",
                "F.a.0.forward.output.0",
                "F.b.0.forward.output.0",
            ],
            ["F.c.0.forward", "", "only in target", "", "", "", ""],
            ["F.c.0.forward", "", "only in golden", "", "", "", ""],
        ]);
        assert_eq!(calls.len(), 3);
        assert_eq!((calls[0].row, calls[0].rows), (0, 2));
        assert_eq!(calls[0].golden.as_deref(), Some("F.b.0.forward"));
        // A result tells more than an argument that is further apart.
        assert_eq!(calls[0].error, Some(0.5));
        assert_eq!(calls[0].gravity, Gravity::Fail);
        assert_eq!(calls.iter().map(CallRecord::side).collect::<Vec<_>>(), ["both", "target", "golden"]);
        assert_eq!(calls[2].row, 3);
    }

    #[test]
    fn nan_on_one_side_outweighs_entries_that_are_equal() {
        let call = "F.a.0.forward";
        let calls = collected(&[
            [
                call,
                "input.0",
                "origin differs",
                "origin differs",
                "NaN",
                "F.a.0.forward.input.0",
                "x.input.0",
            ],
            [call, "input.1", "equal", "origin differs", "0", "F.a.0.forward.input.1", "x.input.1"],
            [call, "output.0", "differs", "origin differs", "NaN", "F.a.0.forward.output.0", "x.output.0"],
            [call, "output.1", "differs", "origin differs", "0.5", "F.a.0.forward.output.1", "x.output.1"],
            ["F.b.0.forward", "output.0", "both NaN", "equal", "NaN", "F.b.0.forward.output.0", "y.output.0"],
        ]);
        assert_eq!(calls[0].error, Some(f64::INFINITY));
        assert_eq!(calls[1].error, None);
    }

    #[test]
    fn what_is_not_finite_is_infinitely_far() {
        let calls = collected(&[[
            "F.a.0.forward",
            "output.0",
            "not finite",
            "",
            "NaN",
            "F.a.0.forward.output.0",
            "x",
        ]]);
        assert_eq!(calls[0].error, Some(f64::INFINITY));
    }
}
