//! Panels and tables with box characters, as the shells of the older tools draw them.
//!
//! A box is as wide as its longest line, whatever the terminal: scripts read these lines, and a cut name is no name.

use unicode_width::UnicodeWidthStr;

use crate::escape;

/// A box around lines, with the title in its upper edge. Each line is made safe for a terminal.
pub fn panel(title: Option<&str>, lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| escape::terminal(line)).collect();
    let title = title.map(|title| format!(" {} ", escape::terminal(title))).unwrap_or_default();
    let longest = lines.iter().map(|line| line.width()).max().unwrap_or(0);
    // An edge shows at least one dash on each side of the title.
    let inner = (longest + 2).max(if title.is_empty() { 0 } else { title.width() + 2 });
    let before = (inner - title.width()) / 2;
    let after = inner - title.width() - before;
    let mut text = format!("╭{}{title}{}╮\n", "─".repeat(before), "─".repeat(after));
    for line in &lines {
        let blanks = " ".repeat(inner - 1 - line.width());
        text.push_str(&format!("│ {line}{blanks}│\n"));
    }
    text.push_str(&format!("╰{}╯\n", "─".repeat(inner)));
    text
}

/// The lines of a table with headings under a heavy rule, all of one width. Cells are aligned to the left.
pub fn heavy_table(title: &str, headings: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let rows: Vec<Vec<_>> =
        rows.iter().map(|row| row.iter().map(|cell| escape::terminal(cell)).collect()).collect();
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (headings.iter().enumerate())
        .map(|(column, heading)| widest(column).unwrap_or(0).max(heading.width()))
        .collect();
    let rule = |left: &str, dash: &str, cross: &str, right: &str| {
        let dashes: Vec<String> = widths.iter().map(|width| dash.repeat(width + 2)).collect();
        format!("{left}{}{right}", dashes.join(cross))
    };
    let line = |cells: &mut dyn Iterator<Item = &str>, edge: &str| {
        let cells =
            cells.zip(&widths).map(|(cell, width)| format!(" {cell}{} ", " ".repeat(width - cell.width())));
        format!("{edge}{}{edge}", cells.collect::<Vec<_>>().join(edge))
    };
    let mut lines =
        vec![rule("┏", "━", "┳", "┓"), line(&mut headings.iter().copied(), "┃"), rule("┡", "━", "╇", "┩")];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(AsRef::as_ref), "│")));
    lines.push(rule("└", "─", "┴", "┘"));
    if !title.is_empty() {
        let room = lines[0].width().saturating_sub(title.width());
        lines.insert(0, format!("{}{title}{}", " ".repeat(room / 2), " ".repeat(room - room / 2)));
    }
    lines
}

/// Two tables, one beside the other.
pub fn side_by_side(left: &[String], right: &[String]) -> String {
    let width = left.first().map_or(0, |line| line.width());
    let mut text = String::new();
    for at in 0..left.len().max(right.len()) {
        let line = left.get(at).cloned().unwrap_or_else(|| " ".repeat(width));
        let other = right.get(at).map_or("", String::as_str);
        text.push_str(format!("{line} {other}").trim_end());
        text.push('\n');
    }
    text
}
