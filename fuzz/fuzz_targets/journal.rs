//! Any bytes as a journal: read as a dump, finished, and read again. The journal and the finished dump must have
//! the same content.
#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use ulpscope_dump::{Dump, Rank, Select, journal};

/// The whole content of a rank; damage inside of values is found here.
fn read(rank: &Rank) -> Vec<String> {
    let call = |call| {
        let entries = rank.entries(call).map_err(|_| ()).map(|entries| format!("{entries:?}"));
        format!("{} {entries:?} {:?} {:?}", rank.name(call), rank.stack(call), rank.parent(call))
    };
    (0..rank.calls().len()).map(call).collect()
}

fn open(folder: &std::path::Path) -> Option<Rank> {
    let dump = Dump::open(folder, &Select::default()).ok()?;
    dump.steps[0].ranks[0].open().ok()
}

fuzz_target!(|data: &[u8]| {
    let folder = tempfile::tempdir().expect("a folder for a journal");
    fs::write(folder.path().join(journal::JOURNAL_FILE), data).expect("a journal can be written");
    let Some(killed) = open(folder.path()) else { return };
    let before = read(&killed);
    let _ = (killed.ledger(), killed.problems());
    if journal::finish(folder.path()).is_ok() {
        let finished = open(folder.path()).expect("a finished dump can be read");
        assert!(finished.problems().is_empty(), "{:?}", finished.problems());
        assert_eq!(read(&finished), before);
    }
});
