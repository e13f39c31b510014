//! The page of a report: one html file with its data.
//!
//! ```text
//! columns ──► bytes ──► part (deflate) ──► PageWriter ──► html: the built page, with parts as base64
//!                                   └────► a server, which sends parts on request
//! ```
//! The page is built from `web` by `make web`, and embedded here. docs/design/page.md describes the parts.

mod base64;
mod column;
mod part;
mod template;
mod writer;

pub use column::{ColumnBuilder, ColumnValue};
pub use part::{Effort, deflate, inflate};
pub use template::{NoPage, Template};
pub use writer::PageWriter;
