//! Fits text into the width of a terminal.
//!
//! A table that is too wide loses columns first: those whose numbers are all zero, then the last ones. Names that
//! are still too long are shortened in the middle, but not where they differ from each other. Numbers are never
//! shortened, and no cell is broken over two lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cell::Cell;
use crate::escape;
use crate::table::{Align, Table};

/// Blanks between two columns.
const GAP: usize = 2;

/// The first column names the rows. It keeps at least this width or a quarter of the total width.
const LEAST_NAME: usize = 8;

/// Other texts keep at least this width: a shape, a dtype or a verdict is shown whole.
const LEAST_TEXT: usize = 16;

/// Maximum names in the note about columns that are not shown.
const NAMED: usize = 8;

/// Which columns of a table are shown, and how wide.
pub(crate) struct Layout {
    /// Number and width of each.
    pub(crate) columns: Vec<(usize, usize)>,
    /// Indices of the columns that do not fit.
    pub(crate) left_out: Vec<usize>,
}

impl Layout {
    /// Fits a table with headings and the cells `texts` into a width.
    pub(crate) fn of(table: &Table, texts: &[Vec<String>], width: usize) -> Layout {
        let natural: Vec<usize> = table
            .columns
            .iter()
            .enumerate()
            .map(|(column, heading)| {
                let cells = texts.iter().map(|row| row[column].width());
                cells.chain([heading.name.width()]).max().unwrap_or(0)
            })
            .collect();
        let least = |column: usize| match (column, table.columns[column].align) {
            (_, Align::Right) => natural[column],
            (0, Align::Left) => natural[column].min(LEAST_NAME.max(width / 4)),
            (_, Align::Left) => natural[column].min(LEAST_TEXT),
        };
        let needed = |columns: &[usize]| -> usize {
            columns.iter().map(|&column| least(column) + GAP).sum::<usize>().saturating_sub(GAP)
        };
        let mut shown: Vec<usize> = (0..table.columns.len()).collect();
        let mut left_out = Vec::new();
        while needed(&shown) > width && shown.len() > 1 {
            let empty = shown.iter().skip(1).rposition(|&column| is_empty(table, column));
            let goes = empty.map_or(shown.len() - 1, |position| position + 1);
            left_out.push(shown.remove(goes));
        }
        left_out.sort_unstable();
        let mut room = width.saturating_sub(needed(&shown));
        let columns = shown.into_iter().map(|column| {
            let more = room.min(natural[column] - least(column));
            room -= more;
            (column, least(column) + more)
        });
        Layout { columns: columns.collect(), left_out }
    }

    /// A note about columns that are not shown; nothing if everything is shown.
    pub(crate) fn note(&self, table: &Table, width: usize) -> Option<String> {
        if self.left_out.is_empty() {
            return None;
        }
        let (zeros, others): (Vec<usize>, Vec<usize>) =
            self.left_out.iter().partition(|&&column| is_empty(table, column));
        let mut words = Vec::new();
        if !others.is_empty() {
            words.push(format!("not shown in {width} characters: {}", names(table, &others)));
        }
        if !zeros.is_empty() {
            words.push(format!("no value above 0: {}", names(table, &zeros)));
        }
        words.push("--wide shows all columns".to_owned());
        Some(words.join("; "))
    }
}

fn names(table: &Table, columns: &[usize]) -> String {
    let mut names: Vec<String> = columns
        .iter()
        .take(NAMED)
        .map(|&column| escape::terminal(&table.columns[column].name).into_owned())
        .collect();
    let more = columns.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Whether a column of numbers contains only zeros and missing values: a note is enough for it.
fn is_empty(table: &Table, column: usize) -> bool {
    table.columns[column].align == Align::Right
        && table.rows.iter().all(|row| matches!(row.cells[column], Cell::Missing | Cell::Int(0)))
}

/// Shortens the texts of a column that are wider than `width`, and keeps the parts that differ.
pub(crate) fn elide(texts: &mut [String], width: usize) {
    if texts.iter().all(|text| text.width() <= width) {
        return;
    }
    let first: Vec<char> = texts.first().map(|text| text.chars().collect()).unwrap_or_default();
    let (mut prefix, mut suffix) = (first.len(), first.len());
    for text in texts.iter().skip(1) {
        let same = |(one, other): &(char, &char)| one == *other;
        prefix = prefix.min(text.chars().zip(&first).take_while(same).count());
        suffix = suffix.min(text.chars().rev().zip(first.iter().rev()).take_while(same).count());
    }
    if texts.len() < 2 || prefix == first.len() {
        (prefix, suffix) = (0, 0);
    }
    for text in texts.iter_mut().filter(|text| text.width() > width) {
        *text = cut(text, width, prefix, suffix);
    }
}

/// Removes as much of the common beginning and end of a text as needed to fit.
fn cut(text: &str, width: usize, prefix: usize, suffix: usize) -> String {
    if prefix == 0 && suffix == 0 {
        return ends(text, width);
    }
    let characters: Vec<char> = text.chars().collect();
    let suffix = suffix.min(characters.len().saturating_sub(prefix));
    let own = prefix..characters.len() - suffix;
    let wide = |characters: &[char]| characters.iter().map(|c| c.width().unwrap_or(0)).sum::<usize>();
    let join = |parts: &[&[char]]| {
        parts.iter().map(|part| part.iter().collect::<String>()).collect::<Vec<_>>().join("…")
    };
    let spare = width.saturating_sub(wide(&characters[own.clone()]) + 2);
    if spare == 0 {
        return ends(text, width);
    }
    let rest = wide(&characters[own.start..]) + 1;
    if rest < width {
        // Everything except the beginning fits.
        let head = fitting(characters.iter(), (width - rest) / 2);
        let before = fitting(characters[..own.start].iter().rev(), width - rest - wide(&characters[..head]));
        return join(&[&characters[..head], &characters[own.start - before..]]);
    }
    let before = fitting(characters[..own.start].iter().rev(), spare.div_ceil(2));
    let used = wide(&characters[own.start - before..own.start]);
    let after = fitting(characters[own.end..].iter(), spare - used);
    let middle = &characters[own.start - before..own.end + after];
    join(&[&[], middle, &[]])
}

/// The beginning and the end of a text that is wider than `width`. Does not copy the text: it may be as long as a
/// file.
pub(crate) fn ends(text: &str, width: usize) -> String {
    let room = width.saturating_sub(1);
    let head = fitting_bytes(text.chars(), room.div_ceil(2));
    let tail = fitting_bytes(text.chars().rev(), room / 2);
    format!("{}…{}", &text[..head], &text[text.len() - tail..])
}

/// How many bytes of a text fit into a width.
fn fitting_bytes(characters: impl Iterator<Item = char>, width: usize) -> usize {
    let mut used = 0;
    let fits = |character: &char| {
        used += character.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).map(char::len_utf8).sum()
}

/// How many characters fit into a width.
fn fitting<'a>(characters: impl Iterator<Item = &'a char>, width: usize) -> usize {
    let mut used = 0;
    let fits = |character: &&char| {
        used += character.width().unwrap_or(0);
        used <= width
    };
    characters.take_while(fits).count()
}

/// The text in lines of at most `width`, broken at blanks. Lines after the first have the indentation of the text.
/// A word that is longer than a line stays whole, because it may be a path to copy.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let words = text.trim_start();
    let indent = &text[..text.len() - words.len()];
    let mut lines = vec![indent.to_owned()];
    let mut has_word = false;
    for word in words.split(' ') {
        let line = lines.len() - 1;
        if has_word && lines[line].width() + 1 + word.width() > width {
            lines.push(format!("{indent}{word}"));
            continue;
        }
        if has_word {
            lines[line].push(' ');
        }
        lines[line].push_str(word);
        has_word = true;
    }
    lines
}
