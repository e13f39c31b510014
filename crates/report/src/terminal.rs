//! Tables as text, for people.

use std::io::IsTerminal;

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid,
    TableStyle,
};

use crate::cell::Cell;
use crate::elided::elided;
use crate::table::{Align, Emphasis, Table};

/// A rule under the headings and nothing else: what is copied out of a terminal is still a table.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A terminal that says it is narrower does not know its size.
const LEAST_WIDTH: u16 = 20;

/// What the reading end can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Whether colours may be used.
    pub colour: bool,
    /// Width to wrap to; a pipe or file has none, and gets every row on one line.
    pub width: Option<u16>,
}

impl Terminal {
    /// What standard output can show: plain, unwrapped text unless it is a terminal, and no colour where the
    /// environment says `NO_COLOR`.
    pub fn of_stdout() -> Terminal {
        if !std::io::stdout().is_terminal() {
            return Terminal::default();
        }
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Terminal { colour: !no_colour, width: Grid::new().width().filter(|width| *width >= LEAST_WIDTH) }
    }

    /// The table as lines of text, each ended by a newline.
    pub fn render(self, table: &Table) -> String {
        let mut grid = Grid::new();
        grid.load_style(STYLE);
        grid.set_content_arrangement(ContentArrangement::Disabled);
        grid.force_no_tty();
        if let Some(width) = self.width {
            grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        if self.colour {
            grid.enforce_styling();
        }
        if table.has_header() {
            grid.set_header(table.columns.iter().map(|column| {
                comfy_table::Cell::new(&column.name)
                    .add_attribute(Attribute::Bold)
                    .set_alignment(alignment(column.align))
            }));
        }
        for row in &table.rows {
            grid.add_row(table.columns.iter().zip(&row.cells).map(|(column, cell)| {
                let shown = comfy_table::Cell::new(shown(cell)).set_alignment(alignment(column.align));
                match row.emphasis {
                    Emphasis::Plain => shown,
                    Emphasis::Good => shown.fg(Color::Green),
                    Emphasis::Warn => shown.fg(Color::Yellow),
                    Emphasis::Bad => shown.fg(Color::Red),
                }
            }));
        }
        for (column, kind) in grid.column_iter_mut().zip(&table.columns) {
            // A number broken over two lines reads as two numbers.
            if kind.align == Align::Right {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
            // With the blank where a vertical line would be, two blanks between columns and none before the first.
            column.set_padding((0, 1));
        }
        let mut text = String::new();
        if !table.title.is_empty() {
            // Titles are names out of files: shown through a cell, they cannot move the cursor.
            text.push_str(&Cell::text(&table.title).to_string());
            text.push('\n');
        }
        for line in grid.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A cell as text. A name may be as long as its file, and every row of a column is as wide as the widest.
fn shown(cell: &Cell) -> String {
    let text = cell.to_string();
    if matches!(cell, Cell::Text(_)) { elided(&text).into_owned() } else { text }
}

fn alignment(align: Align) -> CellAlignment {
    match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    }
}
