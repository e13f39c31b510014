//! Makes text from files safe to show: one function per medium.
//!
//! A name in a file may contain characters that have an effect instead of a glyph: they move the cursor, change
//! colours, reverse the direction of text, or have no width. None of them is written unchanged.
//!
//! | medium | form | kept |
//! |---|---|---|
//! | terminal, HTML | `\u{1b}`; `\n`, `\r`, `\t` | nothing |
//! | text files | the same | line breaks |
//! | sheets (`csv`, `xlsx`) | the same | line breaks and tabs, which are part of the older tools' stacks |
//! | JSON | JSON's own `\u001b`: a reader gets the original text | |
//!
//! Text without such characters is not changed.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character changes how text is shown: control characters, and those that Unicode calls ignorable (marks
/// of direction, of no width, of format). Variation selectors do not count: they belong to the emoji before them.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// For a terminal: always one line.
pub fn terminal(text: &str) -> Cow<'_, str> {
    visible(text, |_| false)
}

/// For a text file: line breaks are kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    visible(text, |character| character == '\n')
}

/// For a cell of a sheet, in any file format.
pub(crate) fn sheet(text: &str) -> Cow<'_, str> {
    visible(text, |character| matches!(character, '\n' | '\t'))
}

/// For HTML: an element's text or an attribute's value.
pub fn html(text: &str, out: &mut String) {
    for character in terminal(text).chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

/// For a finished JSON document. Only its strings contain such characters, except for white space between values.
/// Control characters below U+0020 in strings are already escaped.
pub fn json(document: &str) -> Cow<'_, str> {
    let is_raw = |character: char| character > '\u{1f}' && is_hidden(character);
    replace(document, is_raw, |character, out| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to memory does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn visible(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_replaced = |character: char| is_hidden(character) && !is_kept(character);
    replace(text, is_replaced, |character, out| out.extend(character.escape_default()))
}

fn replace(text: &str, is_replaced: impl Fn(char) -> bool, push: impl Fn(char, &mut String)) -> Cow<'_, str> {
    // Nearly all text is printable ASCII, of which nothing is replaced in any medium. Looking at all bytes is fast.
    if text.bytes().fold(true, |all, byte| all & matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let Some(first) = text.find(&is_replaced) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        if is_replaced(character) { push(character, &mut out) } else { out.push(character) }
    }
    Cow::Owned(out)
}
