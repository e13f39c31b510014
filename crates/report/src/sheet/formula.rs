//! Text that a spreadsheet must not run.
//!
//! A spreadsheet that opens a `.csv` file takes a cell that begins with `=`, `+`, `-` or `@` for a formula, and a
//! formula can start programs. Names in a dump come from somebody else's machine, so no such text goes out as it
//! is; and no row may be lost over it, so the text is [disarmed](disarm) by one `'` before it, the sign by which
//! spreadsheets mark text. [`restore`] takes exactly that away again: whatever the text, restoring what was
//! disarmed gives the same text.
//!
//! A cell may begin in the middle of a text: where `;` separates cells, as it does for spreadsheets in half the
//! world, the quotes around a cell do not count, and cells also begin after each `;` and each line break.
//!
//! Numbers stay as they are, alone (`-1.5e-05`, `-inf`) or several separated by `;`. So does a single sign, which
//! stands for nothing and runs nothing.

use std::borrow::Cow;

/// What a formula can begin with. Tab and CR are skipped by spreadsheets before they look; the wide forms are
/// taken for the narrow ones where East Asian text is typed.
const BEGINNINGS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// After which a cell may begin.
const SEPARATORS: [char; 3] = [';', '\n', '\r'];

/// The text with a `'` before whatever could begin a formula.
pub(crate) fn disarm(text: &str) -> Cow<'_, str> {
    if !text.contains(BEGINNINGS) || is_harmless(text) {
        return Cow::Borrowed(text);
    }
    rewrite(text, |quotes| quotes + 1)
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

/// Changes the number of `'` before each formula. Those that the text has itself count: only so can the way back
/// tell them from ours.
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
