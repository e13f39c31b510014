//! Tables as text, for people.

use std::io::IsTerminal;

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid,
    TableStyle,
};

use unicode_width::UnicodeWidthStr;

use crate::cell::Cell;
use crate::colour::ColourChoice;
use crate::escape;
use crate::layout::{Layout, elide, ends, wrap};
use crate::table::{Align, Column, Emphasis, Table};

/// Only a rule under the headings: text copied from a terminal is still a table.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A terminal that reports a smaller width does not know its size.
const LEAST_WIDTH: u16 = 20;

/// The width of a terminal that does not know its size.
const USUAL_WIDTH: u16 = 80;

/// Maximum terminal columns for the text of a cell, however wide the table may be.
const MAX_TEXT: usize = 200;

/// What the output can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Whether colours may be used.
    pub colour: bool,
    /// Width to fit text into; a pipe or file has none, and gets every row on one line.
    pub width: Option<u16>,
}

impl Terminal {
    /// What standard output can show. A terminal has its width; other outputs have none.
    pub fn of_stdout(choice: ColourChoice) -> Terminal {
        let is_terminal = std::io::stdout().is_terminal();
        let width = || Grid::new().width().filter(|width| *width >= LEAST_WIDTH).unwrap_or(USUAL_WIDTH);
        Terminal {
            colour: choice.applies(is_terminal, |name| std::env::var_os(name)),
            width: is_terminal.then(width),
        }
    }

    /// A line of prose, broken at blanks to fit.
    pub fn prose(self, line: &str) -> Vec<String> {
        let line = escape::terminal(line);
        self.width.map_or_else(|| vec![line.to_string()], |width| wrap(&line, width.into()))
    }

    /// A line in the colour of its emphasis.
    pub fn paint(self, line: &str, emphasis: Emphasis) -> String {
        let line = escape::terminal(line);
        let colour = match emphasis {
            Emphasis::Good => 10,
            Emphasis::Warn => 11,
            Emphasis::Bad => 9,
            Emphasis::Plain => return line.into_owned(),
        };
        if self.colour { format!("\u{1b}[38;5;{colour}m{line}\u{1b}[0m") } else { line.into_owned() }
    }

    /// The table as lines of text, each ended by a newline.
    pub fn render(self, table: &Table) -> String {
        let mut grid = Grid::new();
        grid.load_style(STYLE);
        grid.set_content_arrangement(ContentArrangement::Disabled);
        grid.force_no_tty();
        if self.colour {
            grid.enforce_styling();
        }
        let mut texts: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.cells.iter().map(text_of).collect()).collect();
        let mut columns: Vec<&Column> = table.columns.iter().collect();
        let mut note = None;
        match self.width {
            Some(width) if table.has_header() => {
                // The rule under the headings is one character longer than the rows.
                let layout = Layout::of(table, &texts, usize::from(width).saturating_sub(1));
                columns = layout.columns.iter().map(|&(column, _)| &table.columns[column]).collect();
                texts = shown(texts, &layout);
                note = layout.note(table, width.into()).map(|note| wrap(&note, width.into()));
            }
            Some(width) => {
                grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            }
            None => {}
        }
        if table.has_header() {
            grid.set_header(columns.iter().map(|column| {
                comfy_table::Cell::new(escape::terminal(&column.name))
                    .add_attribute(Attribute::Bold)
                    .set_alignment(alignment(column.align))
            }));
        }
        for (row, texts) in table.rows.iter().zip(texts) {
            grid.add_row(columns.iter().zip(texts).map(|(column, text)| {
                let shown = comfy_table::Cell::new(text).set_alignment(alignment(column.align));
                match row.emphasis {
                    Emphasis::Plain => shown,
                    Emphasis::Good => shown.fg(Color::Green),
                    Emphasis::Warn => shown.fg(Color::Yellow),
                    Emphasis::Bad => shown.fg(Color::Red),
                }
            }));
        }
        for (position, (column, kind)) in grid.column_iter_mut().zip(&columns).enumerate() {
            // A number broken over two lines reads as two numbers. The same holds for the name of a field.
            if kind.align == Align::Right || position == 0 {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            // A blank replaces the vertical line: two blanks between columns and none before the first.
            column.set_padding((0, 1));
        }
        let mut text = String::new();
        if !table.title.is_empty() {
            text.push_str(&escape::terminal(&table.title));
            text.push('\n');
        }
        for line in grid.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for line in note.unwrap_or_default() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

/// A cell as text. A name may be as long as its file, and every row of a column is padded to the widest. So a text is
/// shortened even without a width.
fn text_of(cell: &Cell) -> String {
    let text = cell.to_string();
    if matches!(cell, Cell::Text(_)) && text.width() > MAX_TEXT { ends(&text, MAX_TEXT) } else { text }
}

/// The texts of the shown columns, each as wide as its column.
fn shown(texts: Vec<Vec<String>>, layout: &Layout) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = vec![Vec::new(); texts.len()];
    for &(column, width) in &layout.columns {
        let mut cells: Vec<String> = texts.iter().map(|row| row[column].clone()).collect();
        elide(&mut cells, width);
        rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
    }
    rows
}

fn alignment(align: Align) -> CellAlignment {
    match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    }
}
