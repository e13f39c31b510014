//! Renders results.
//!
//! A caller describes a result once, as a [`Record`] (named values) or a [`Table`] (rows of cells), and this crate
//! shows it: as text for a terminal or a pipe, as JSON for a program, as HTML for a notebook. If there are too many
//! rows for memory, they are written one by one into a result sheet ([`SheetFormat`]). [`sheet`] reads such
//! sheets again. The crate does not depend on what was measured. It only defines the names of the results' fields
//! ([`fields`]), so that every interface of the program uses the same ones.
//!
//! ```text
//! Record, Table ──► text   (colour only adds: every word is there without it)
//!               ──► json   (numbers stay numbers; NaN and infinities are strings, see json)
//!               ──► html   (escaped; no styles except its own)
//! Row, Row, …   ──► csv, xlsx ──► Sheet   (full precision; no text in them can run)
//! ```

mod bars;
mod boxes;
mod cell;
mod colour;
pub mod csv;
pub mod escape;
pub mod fields;
mod html;
pub mod json;
mod layout;
mod number;
pub mod page;
pub mod sheet;
mod table;
mod terminal;
pub mod xlsx;

pub use bars::Bars;
pub use boxes::{heavy_table, panel, side_by_side};
pub use cell::{Cell, Record};
pub use colour::{ColourChoice, is_dumb};
pub use number::{
    format_apart, format_count, format_digits, format_number, format_number_up, format_ratio, format_short,
    format_shortest, format_shortest_f32,
};
pub use sheet::{SheetFormat, SheetWriter};
pub use table::{Align, Column, Emphasis, Row, Table};
pub use terminal::Terminal;
