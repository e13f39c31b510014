//! The journal: the file that a run writes during a step, and that remains if the run is killed.
//!
//! A `dump.json` is one document, which is useless before its last bracket. Therefore a run appends one line of
//! JSON for every event, inputs before the call that receives them. The documents are made from the lines when the
//! step has ended. The first key of a line is its kind:
//!
//! ```text
//! {"ulpscope":1,"task":…,"level":…,"framework":…,"dump_data_dir":…}            always first
//! {"stack":12,"frames":[…]}                                                    before the first call made there
//! {"call":NAME,"id":5,"stack":12,"parent":NAME,"data":{sections}}              begins; without an id it is complete
//! {"more":5,"data":{sections}}
//! {"end":5,"last":true,"data":{sections}}                                      last: ordered by its end
//! {"raised":5}
//! {"ledger":{…},"over":true}                                                   the last counts; over: the step ended
//! ```
//!
//! [`encode`] writes the lines, `line.rs` reads them, and `quick.rs` reads those that have the usual form.
//!
//! ```text
//!                                   ┌──► finish: the files of a layout, such as dump.json; no journal
//! journal.jsonl ──► Outline ──► documents
//!                 (offsets)         └──► open: the same in nameless files, for the reader of dumps
//! ```
//! Both read the file once to check every line and to find its parts, and once more to copy their text; only names
//! are decoded. A journal may come from another machine: a line that cannot be read is a problem and is left out.
//! That is common for the last line of a killed run.

mod documents;
pub mod encode;
mod finish;
mod layouts;
mod line;
mod open;
mod outline;
mod quick;
mod scan;

use std::path::Path;

use ulpscope_formats::storage;

pub use finish::{add_note, finish, make_dump, remove};
pub use layouts::{Layout, LayoutError};
pub(crate) use open::open;

/// The file name of a journal in the folder of a rank.
pub const JOURNAL_FILE: &str = "journal.jsonl";

/// The version of the journal format.
const VERSION: i128 = 1;

/// How every journal begins.
pub(crate) const MARK: &[u8] = b"{\"ulpscope\":";

/// Whether text begins like a journal, or is a prefix of that beginning.
fn has_mark(text: &[u8]) -> bool {
    text.starts_with(MARK) || MARK.starts_with(text)
}

/// Whether a file begins like a journal. An empty file does, as does one whose first bytes never reached the disk.
pub(crate) fn is_journal(path: &Path) -> bool {
    let mut beginning = [0; MARK.len()];
    let Ok(length) = storage::read_beginning(path, &mut beginning) else { return false };
    let written = beginning[..length].split(|&byte| byte == 0).next().unwrap_or_default();
    has_mark(written)
}
