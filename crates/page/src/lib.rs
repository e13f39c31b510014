//! The data of pages: of a comparison, of one run, of two checkpoints.
//!
//! ```text
//! result.json, sheets ──► comparison ──┐
//! dumps, if there ──► details, flow ───┼──► parts ──► Page ──► write: one html file
//! a dump ──► run ──────────────────────┘                  └──► serve: loopback, on request
//! ```
//! Everything here comes from files of others, and is data: names of parts are made of numbers, texts are put into parts
//! alone, and the first screen, which is html, is escaped. docs/design/page.md describes the parts.

mod calls;
mod comparison;
mod connections;
mod details;
mod dumps;
mod error;
mod first_screen;
mod flow;
mod heat;
mod names;
mod page;
mod parts;
mod regions;
mod result;
mod rows;
mod run;
mod selection;
mod server;
mod trends;
mod words;

pub use comparison::{PageOptions, first_screen_of_result, page_of_result};
pub use dumps::DumpPlaces;
pub use error::PageError;
pub use page::{Page, REPORT, place_of_page};
pub use result::{IndexedSheet, MemoryRows, ResultFolder, ResultRows, RowValues};
pub use run::page_of_dump;
pub use server::Server;
