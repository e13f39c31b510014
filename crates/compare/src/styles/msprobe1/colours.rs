//! Red and yellow rows, and the words that go with them.

use super::row::Draft;
use crate::styles::msprobe::item::Stat;
use crate::styles::msprobe::mode::Mode;

const NOT_FINITE: &str = "maximum or minimum is nan, -inf, or inf";
const HUGE: &str = "maximum absolute error exceeds 1e+10";
const MAGNITUDE: &str = "maximum absolute error of both input and output exceed 1, \
    with the output larger by an order of magnitude";
const THOUSANDTH: &str = "The input's one thousandth err ratio exceeds 0.9, while the output's is below 0.6";
const THOUSANDTH_DROPS: &str =
    "The output's one thousandth err ratio decreases by more than 0.1 compared to the input's";
const COSINE_DROPS: &str = "The output's cosine decreases by more than 0.1 compared to the input's";
const RELATIVE: &str = "maximum relative error exceeds 0.5";
const RELATIVE_GROWS: &str =
    "The output's maximum relative error exceeds 0.1, while the input's is below 0.01";

/// Colours the rows of a slice, whose first `inputs` count as arguments.
pub(crate) fn colour(rows: &mut [Draft<'_>], inputs: usize, mode: Mode) {
    if mode == Mode::Digests {
        return;
    }
    for row in rows.iter_mut() {
        if is_odd(&row.stats[0][0]) || is_odd(&row.stats[0][1]) {
            row.red.push(NOT_FINITE);
        } else if row.max_diff.is_some_and(|difference| difference.abs() > 1e10) {
            row.red.push(HUGE);
        }
    }
    let (arguments, results) = rows.split_at_mut(inputs.min(rows.len()));
    for result in results.iter_mut() {
        let Some(out) = Numbers::of(result) else { continue };
        for argument in arguments.iter().filter_map(|argument| Numbers::of(argument)) {
            magnitude(&argument, &out, &mut result.yellow);
            if mode == Mode::Statistics {
                relative(&argument, &out, result);
            } else {
                shares(&argument, &out, result);
            }
        }
    }
}

/// What is compared of a row, where it has the numbers.
#[derive(Clone, Copy)]
struct Numbers {
    difference: f64,
    golden_max: f64,
    one_thousandth: Option<f64>,
    cosine: Option<f64>,
}

impl Numbers {
    fn of(row: &Draft<'_>) -> Option<Numbers> {
        number(&row.stats[0][0])?;
        Some(Numbers {
            difference: row.max_diff?,
            golden_max: number(&row.stats[1][0])?,
            one_thousandth: row.one_thousandth,
            cosine: row.cosine,
        })
    }
}

/// A number, truth values among them.
fn number(stat: &Stat<'_>) -> Option<f64> {
    match stat {
        Stat::Bool(flag) => Some(f64::from(u8::from(*flag))),
        stat => stat.number(),
    }
}

/// `Nan` is a word to the tool, and not one that it looks for.
fn is_odd(stat: &Stat<'_>) -> bool {
    match stat {
        Stat::Float(number) => !number.is_finite(),
        Stat::Text(text) => matches!(text.trim_end_matches('\t'), "nan" | "inf" | "-inf"),
        _ => false,
    }
}

fn magnitude(argument: &Numbers, result: &Numbers, yellow: &mut Vec<&'static str>) {
    let (before, after) = (argument.difference.abs(), result.difference.abs());
    if before > after {
        return;
    }
    let order = |difference: f64| if difference < 1.0 { 0.0 } else { difference.log10() };
    if order(after) - order(before) >= 1.0 {
        yellow.push(MAGNITUDE);
    }
}

fn relative(argument: &Numbers, result: &Numbers, row: &mut Draft<'_>) {
    let share = |numbers: &Numbers| (numbers.difference / numbers.golden_max.max(0.01)).abs();
    if share(result) > 0.5 {
        row.red.push(RELATIVE);
    } else if share(result) > 0.1 && share(argument) < 0.01 {
        row.yellow.push(RELATIVE_GROWS);
    }
}

fn shares(argument: &Numbers, result: &Numbers, row: &mut Draft<'_>) {
    if let (Some(before), Some(after)) = (argument.one_thousandth, result.one_thousandth) {
        if before > 0.9 && after < 0.6 {
            row.red.push(THOUSANDTH);
        } else if before - after > 0.1 {
            row.yellow.push(THOUSANDTH_DROPS);
        }
    }
    if let (Some(before), Some(after)) = (argument.cosine, result.cosine)
        && before - after > 0.1
    {
        row.yellow.push(COSINE_DROPS);
    }
}
