//! The rules that decide `pass`, `warning` or `error` for a row, from all rows of its call.

use super::item::Stat;
use super::mode::Mode;
use super::row::Draft;
use crate::style::Verdict;

/// Calls whose results are ignored.
const IGNORED: [&str; 9] = [
    "empty",
    "empty_like",
    "numpy",
    "to",
    "__setitem__",
    "empty_with_format",
    "new_empty_strided",
    "new_empty",
    "empty_strided",
];

/// Calls whose arguments are ignored: they are buffers to be filled.
const ARGUMENTS_IGNORED: [&str; 4] =
    ["_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv"];

const NOT_FINITE: &str = "error: There is nan/inf/-inf in the maximum or minimum value of NPU.";
const THOUSANDTHS: &str =
    "error: The input/parameters of One Thousandth Err Ratio > 0.9 while the output < 0.6.";
const NORM: &str = "error: The NormRelativeErr of output is greater than 0.5.";
const REQUIRES_GRAD: &str = "error: The Required_Grad of NPU and Bench are inconsistent";
const SCALARS: &str = "error: The scalar parameters of NPU and Bench are inconsistent.";
const DTYPES: &str = "error: The dtype of NPU and Bench are inconsistent.";
const SHAPES: &str = "error: The shape of NPU and Bench are inconsistent.";
const NORM_GROWS: &str = "warning: The norm relative error of output is 10 times that of input.";
const COSINE_DROPS: &str =
    "warning: The input/parameters of Cosine > 0.9, and input/parameters - output > 0.1";
const DIGESTS: &str = "error: The CRC-32 value of NPU differs from that of the bench.";
const DIGEST_ABSENT: &str = "warning: The parameter of NPU does not match the bench.";

/// Which rows of a call the rules look at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Regard {
    All,
    Outputs,
    None,
}

/// Judges the rows of a call.
pub(crate) fn judge(rows: &mut [Draft<'_>], mode: Mode) {
    let regard = regard(rows);
    if regard == Regard::None {
        return;
    }
    if mode == Mode::Digests {
        return rows.iter_mut().filter(|row| regard == Regard::All || row.is_output()).for_each(digests);
    }
    // Messages are in the order of the rules.
    let each = |rows: &mut [Draft<'_>], rule: fn(&Draft<'_>) -> Option<&'static str>| {
        for row in rows.iter_mut().filter(|row| regard == Regard::All || row.is_output()) {
            if let Some(message) = rule(row) {
                row.mark(Verdict::Fail, message);
            }
        }
    };
    each(rows, not_finite);
    if regard == Regard::All {
        match mode {
            Mode::Real => thousandths(rows),
            _ => norms(rows),
        }
    }
    each(rows, requires_grads);
    if regard == Regard::All {
        each(rows, scalars);
    }
    each(rows, dtypes);
    each(rows, shapes);
    if regard == Regard::All {
        match mode {
            Mode::Real => cosines(rows),
            _ => norms_grow(rows),
        }
    }
}

/// Which rows the rules use: the second part of the first argument's name decides.
fn regard(rows: &[Draft<'_>]) -> Regard {
    let first = rows.iter().find(|row| !row.is_output());
    match first.and_then(|row| row.target.name.split('.').nth(1)) {
        Some(api) if IGNORED.contains(&api) => Regard::None,
        Some(api) if ARGUMENTS_IGNORED.contains(&api) => Regard::Outputs,
        _ => Regard::All,
    }
}

fn digests(row: &mut Draft<'_>) {
    let [target, golden] = row.digests();
    if target != golden {
        let absent = |digest| matches!(digest, "N/A" | "Nan" | "");
        if absent(target) || absent(golden) {
            row.mark(Verdict::Warn, DIGEST_ABSENT);
        } else {
            row.mark(Verdict::Fail, DIGESTS);
        }
    }
}

fn not_finite(row: &Draft<'_>) -> Option<&'static str> {
    let odd = |stat: &Stat<'_>| match stat {
        Stat::Float(number) => !number.is_finite(),
        Stat::Text(text) => {
            let text = text.trim_ascii();
            ["inf", "-inf", "nan"].iter().any(|word| text.eq_ignore_ascii_case(word))
        }
        _ => false,
    };
    let [target, golden] = &row.stats;
    let of_target = odd(&target[0]) || odd(&target[1]);
    (of_target && !odd(&golden[0]) && !odd(&golden[1])).then_some(NOT_FINITE)
}

fn requires_grads(row: &Draft<'_>) -> Option<&'static str> {
    let golden = row.golden.as_ref()?;
    (row.target.requires_grad != golden.requires_grad).then_some(REQUIRES_GRAD)
}

fn scalars(row: &Draft<'_>) -> Option<&'static str> {
    let golden = row.golden.as_ref()?;
    let is_class =
        |dtype: &Option<std::borrow::Cow<'_, str>>| dtype.as_ref().is_some_and(|d| d.contains("class"));
    let scalar = !row.is_output()
        && is_class(&row.target.dtype)
        && is_class(&golden.dtype)
        && row.target.shape.as_deref() == Some("[]");
    (scalar && !row.stats[0][0].equals(&row.stats[1][0])).then_some(SCALARS)
}

fn dtypes(row: &Draft<'_>) -> Option<&'static str> {
    let golden = row.golden.as_ref()?;
    // Concatenated projections are exempt, wherever their names come from.
    let exempt = golden.name.contains("qkv") || golden.name.contains("gate_up");
    (!exempt && row.target.dtype != golden.dtype).then_some(DTYPES)
}

fn shapes(row: &Draft<'_>) -> Option<&'static str> {
    let golden = row.golden.as_ref()?;
    (row.target.shape != golden.shape).then_some(SHAPES)
}

/// The smallest measure over arguments or results; 1 if there is none.
fn least(rows: &[Draft<'_>], outputs: bool, measure: fn(&Draft<'_>) -> Option<f64>) -> f64 {
    rows.iter().filter(|row| row.is_output() == outputs).filter_map(measure).fold(1.0, f64::min)
}

/// The largest relative error of the norm over arguments or results; 0 if there is none.
fn largest_norm(rows: &[Draft<'_>], outputs: bool) -> f64 {
    let shares =
        rows.iter().filter(|row| row.is_output() == outputs).filter_map(|row| row.norm_error()?.share());
    shares.fold(0.0, f64::max)
}

fn mark_first_output(rows: &mut [Draft<'_>], verdict: Verdict, message: &'static str) {
    if let Some(row) = rows.iter_mut().find(|row| row.is_output()) {
        row.mark(verdict, message);
    }
}

fn thousandths(rows: &mut [Draft<'_>]) {
    // The message says 0.6, and so does the guide; the tool compares with 0.1.
    if least(rows, false, |row| row.one_thousandth()) > 0.9
        && least(rows, true, |row| row.one_thousandth()) < 0.1
    {
        mark_first_output(rows, Verdict::Fail, THOUSANDTHS);
    }
}

fn cosines(rows: &mut [Draft<'_>]) {
    let inputs = least(rows, false, |row| row.cosine());
    if inputs > 0.9 && inputs - least(rows, true, |row| row.cosine()) > 0.1 {
        mark_first_output(rows, Verdict::Warn, COSINE_DROPS);
    }
}

fn norms(rows: &mut [Draft<'_>]) {
    if largest_norm(rows, false) < 0.1 {
        for row in rows.iter_mut().filter(|row| row.is_output()) {
            if row.norm_error().is_some_and(|error| error.size() > 0.5) {
                row.mark(Verdict::Fail, NORM);
            }
        }
    }
}

fn norms_grow(rows: &mut [Draft<'_>]) {
    let (inputs, outputs) = (largest_norm(rows, false), largest_norm(rows, true));
    let grows = if inputs == 0.0 { outputs > 0.1 } else { outputs / inputs > 10.0 };
    if grows {
        mark_first_output(rows, Verdict::Warn, NORM_GROWS);
    }
}
