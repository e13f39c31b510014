//! Text that a spreadsheet must not run.
//!
//! A spreadsheet that opens a `.csv` file treats a cell that begins with `=`, `+`, `-` or `@` as a formula, and a
//! formula can start programs. Names in a dump come from another machine, so such text is never written unchanged. No
//! row may be lost either. Therefore the text is [disarmed](disarm) by a `'` before it, the sign with which
//! spreadsheets mark text. [`restore`] removes exactly that again: for any text, restoring the disarmed text
//! gives the original.
//!
//! A cell may begin in the middle of a text. In many locales spreadsheets separate cells by `;`. Then the
//! quotes around a cell do not count, and cells also begin after each `;` and each line break.
//!
//! Numbers are not changed, alone (`-1.5e-05`, `-inf`) or several separated by `;`. Neither is a single sign, which
//! means nothing and runs nothing.

use std::borrow::Cow;

/// Possible first characters of a formula. Spreadsheets skip leading tabs and CRs; with East Asian input they treat
/// the wide forms like the narrow ones.
const BEGINNINGS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// Characters after which a cell may begin.
const SEPARATORS: [char; 3] = [';', '\n', '\r'];

/// The text with a `'` before anything that could begin a formula.
pub(crate) fn disarm(text: &str) -> Cow<'_, str> {
    if !may_contain_beginning(text) || !text.contains(BEGINNINGS) || is_harmless(text) {
        return Cow::Borrowed(text);
    }
    rewrite(text, |quotes| quotes + 1)
}

/// The first byte of the wide forms among [`BEGINNINGS`].
const WIDE: u8 = 0xef;

/// Whether one of [`BEGINNINGS`] may be in a text. Looking at all bytes is fast, and there is none in nearly all texts.
fn may_contain_beginning(text: &str) -> bool {
    let is_beginning = |byte: u8| matches!(byte, b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | WIDE);
    text.bytes().fold(false, |any, byte| any | is_beginning(byte))
}

/// The text that was [disarmed](disarm).
pub(crate) fn restore(text: &str) -> Cow<'_, str> {
    if !text.contains('\'') {
        return Cow::Borrowed(text);
    }
    rewrite(text, |quotes| quotes.saturating_sub(1))
}

fn is_harmless(text: &str) -> bool {
    let mut characters = text.chars();
    let is_single = characters.next().is_some() && characters.next().is_none();
    (is_single && !text.starts_with(['\t', '\r'])) || text.split(';').all(|part| part.parse::<f64>().is_ok())
}

/// Changes the number of `'` before each formula. Those of the text itself count too: otherwise they could not be
/// distinguished from ours on the way back.
fn rewrite(text: &str, quotes: impl Fn(usize) -> usize) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len() + 1);
    for segment in text.split_inclusive(SEPARATORS) {
        let bare = segment.trim_start_matches('\'');
        let count = segment.len() - bare.len();
        let count = if bare.starts_with(BEGINNINGS) { quotes(count) } else { count };
        out.extend(std::iter::repeat_n('\'', count));
        out.push_str(bare);
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_beginning_of_a_formula_is_passed_over() {
        for beginning in BEGINNINGS {
            assert!(may_contain_beginning(&format!("name{beginning}")), "{beginning:?}");
        }
        assert!(!may_contain_beginning("Functional.linear.0.forward, é: [2, 8]"));
    }
}
