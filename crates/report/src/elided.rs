//! Text cut in the middle, so that one long name cannot widen every row of a table.

use std::borrow::Cow;

/// Characters of a cell in a terminal.
pub(crate) const MAX_CELL: usize = 200;

/// The text, or its beginning and end around an ellipsis, `MAX_CELL` characters in all.
pub(crate) fn elided(text: &str) -> Cow<'_, str> {
    // Cheap for nearly all cells: a character has at least one byte.
    if text.len() <= MAX_CELL || text.chars().nth(MAX_CELL).is_none() {
        return Cow::Borrowed(text);
    }
    let front = MAX_CELL / 2;
    let back = MAX_CELL - front - 1;
    let end_of_front = text.char_indices().nth(front).map_or(text.len(), |(at, _)| at);
    let start_of_back = text.char_indices().rev().nth(back - 1).map_or(0, |(at, _)| at);
    Cow::Owned(format!("{}…{}", &text[..end_of_front], &text[start_of_back..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_ends() {
        let fits = "ä".repeat(MAX_CELL);
        assert_eq!(elided(&fits), fits);
        let long = format!("begin{}end", "ä".repeat(MAX_CELL));
        let cut = elided(&long);
        assert_eq!(cut.chars().count(), MAX_CELL);
        assert!(cut.starts_with("begin") && cut.contains('…') && cut.ends_with("end"), "{cut}");
    }
}
