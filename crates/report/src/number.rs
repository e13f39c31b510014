//! Numbers as text: short for tables, exact for files.

/// Significant digits in a table for a number that is not an integer.
const TABLE_DIGITS: usize = 6;

/// Significant digits that distinguish any two doubles.
const EXACT_DIGITS: usize = 17;

/// Integers up to here are printed in full; all of them are exact in a double.
const MAX_PLAIN_INTEGER: f64 = 1e15;

/// A number for a table: integers in full, anything else with up to six significant digits; `nan`, `inf`, `-inf`.
pub fn format_number(value: f64) -> String {
    if value.is_finite() && value.fract() == 0.0 && value.abs() < MAX_PLAIN_INTEGER {
        // Adding zero turns -0 into 0: the difference is irrelevant in a table.
        return format!("{:.0}", value + 0.0);
    }
    layout(&format!("{value:.*e}", TABLE_DIGITS - 1), TABLE_DIGITS as i32)
}

/// A count for a sentence: thousands grouped, `21,700`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number for a sentence: three significant digits.
pub fn format_short(value: f64) -> String {
    format_digits(value, 3)
}

/// How many times as large, for a sentence: three significant digits, thousands grouped.
pub fn format_ratio(ratio: f64) -> String {
    const GROUPED: std::ops::Range<f64> = 1e3..1e12;
    let short = format_short(ratio);
    match short.parse::<f64>() {
        Ok(rounded) if GROUPED.contains(&rounded) => format_count(rounded as u64),
        _ => short,
    }
}

/// Two numbers for a sentence, with the fewest significant digits, `least` or more, that make them look different.
pub fn format_apart(one: f64, other: f64, least: usize) -> (String, String) {
    let written = |digits: usize| (format_digits(one, digits), format_digits(other, digits));
    let told_apart = (least..EXACT_DIGITS).map(written).find(|(one, other)| one != other);
    told_apart.unwrap_or_else(|| written(EXACT_DIGITS))
}

/// A number with this many significant digits, without trailing zeros.
pub fn format_digits(value: f64, digits: usize) -> String {
    // Adding zero turns -0 into 0.
    layout(&format!("{:.*e}", digits.max(1) - 1, value + 0.0), digits.max(TABLE_DIGITS) as i32)
}

/// Like [`format_number`], but never less than the value: a tolerance that is shown as enough is enough when typed
/// in.
pub fn format_number_up(value: f64) -> String {
    let nearest = format_number(value);
    if nearest.parse::<f64>().is_ok_and(|shown| shown >= value) || !value.is_finite() {
        return nearest;
    }
    let scientific = format!("{value:.*e}", TABLE_DIGITS - 1);
    let next = scientific.split_once('e').and_then(|(mantissa, exponent)| {
        let digits: i64 = mantissa.replace('.', "").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - (TABLE_DIGITS as i32 - 1);
        format!("{}e{exponent}", digits + 1).parse::<f64>().ok()
    });
    next.map_or(nearest, format_number)
}

/// The shortest text that reads back as the same double.
pub fn format_shortest(value: f64) -> String {
    layout(&format!("{value:e}"), 16)
}

/// The shortest text that reads back as the same binary32: 0.1 stays `0.1`.
pub fn format_shortest_f32(value: f32) -> String {
    layout(&format!("{value:e}"), 16)
}

/// Converts Rust's scientific notation (`1.2300e-5`) to that of C's `%g`: no trailing zeros, a plain decimal
/// point for exponents from -4 up to `widest`, and an exponent of at least two digits beyond that.
fn layout(scientific: &str, widest: i32) -> String {
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        // "NaN", "inf" and "-inf" have no exponent.
        return scientific.to_lowercase();
    };
    let Ok(exponent) = exponent.parse::<i32>() else { return scientific.to_owned() };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|&c| c != '.').collect();
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    let (head, tail) = digits.split_at(1);
    if !(-4..widest).contains(&exponent) {
        let point = if tail.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{head}{point}{tail}e{exponent_sign}{:02}", exponent.unsigned_abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits:0<whole$}");
    }
    let (integer, fraction) = digits.split_at(whole);
    format!("{sign}{integer}.{fraction}")
}
