//! The journal: what a run writes while a step is going on, and what is left of the step should the run be killed.
//!
//! A `dump.json` is one document, of no use before its last bracket. So a run appends one line of JSON for everything
//! that happens, inputs before the call that gets them, and the documents are made from the lines when the step is
//! over. The first key of a line tells its kind:
//!
//! ```text
//! {"ulpscope":1,"task":…,"level":…,"framework":…,"dump_data_dir":…}            always first
//! {"stack":12,"frames":[…]}                                                    before the first call made there
//! {"call":NAME,"id":5,"stack":12,"parent":NAME,"data":{sections}}              begins; without an id it is complete
//! {"more":5,"data":{sections}}
//! {"end":5,"last":true,"data":{sections}}                                      last: takes its place here
//! {"raised":5}
//! {"ledger":{…},"over":true}                                                   the last one counts; over: so is the step
//! ```
//!
//! [`encode`] writes the lines, `line.rs` reads them, and `quick.rs` reads those that have the usual form.
//!
//! ```text
//!                                   ┌──► finish: dump.json, stack.json, construct.json, ledger.json; the journal goes
//! journal.jsonl ──► Outline ──► documents
//!                 (offsets)         └──► open: the same into files without a name, for the reader of dumps
//! ```
//! Both go through the file once to check every line and to learn where its parts are, and once more to copy their
//! text; nothing but names is decoded. A journal may come from elsewhere: a line that cannot be read is a problem
//! and is left out, the last one of a run that was killed above all.

mod documents;
pub mod encode;
mod finish;
mod line;
mod open;
mod outline;
mod quick;
mod scan;

use std::io::Read;
use std::path::Path;

use ulpscope_formats::file::open_regular;

pub use finish::{add_note, finish, make_dump, remove};
pub(crate) use open::open;

/// The name of a journal in the folder of a rank.
pub const JOURNAL_FILE: &str = "journal.jsonl";

/// The version of journals that is written and read.
const VERSION: i128 = 1;

/// How every journal begins.
pub(crate) const MARK: &[u8] = b"{\"ulpscope\":";

/// Whether text begins like a journal, or is the beginning of such a beginning.
fn has_mark(text: &[u8]) -> bool {
    text.starts_with(MARK) || MARK.starts_with(text)
}

/// Whether a file begins like a journal; an empty one does, as does one whose first bytes never reached the disk.
pub(crate) fn is_journal(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let Ok(file) = open_regular(path) else { return false };
    let read = file.take(MARK.len() as u64).read_to_end(&mut beginning);
    let written = beginning.split(|&byte| byte == 0).next().unwrap_or_default();
    read.is_ok() && has_mark(written)
}
