//! Lines of a mapping file that have no effect: the first few are named, the others counted.

use std::path::Path;

/// Lines that are named one by one.
const NAMED: usize = 10;

/// Lines without effect of one file.
pub(super) struct IdleLines<'a> {
    file: &'a Path,
    notes: &'a mut Vec<String>,
    count: usize,
}

impl<'a> IdleLines<'a> {
    /// Lines of `file`, named in `notes`.
    pub(super) fn of(file: &'a Path, notes: &'a mut Vec<String>) -> IdleLines<'a> {
        IdleLines { file, notes, count: 0 }
    }

    /// A line, and why it has no effect.
    pub(super) fn add(&mut self, line: u64, why: impl FnOnce() -> String) {
        self.count += 1;
        if self.count <= NAMED {
            let file = self.file.display();
            self.notes.push(format!("{file}: line {line}: {}; the line has no effect", why()));
        }
    }
}

impl Drop for IdleLines<'_> {
    fn drop(&mut self) {
        let more = self.count.saturating_sub(NAMED);
        if more > 0 {
            let lines = if more == 1 { "line has" } else { "lines have" };
            self.notes.push(format!("{}: {more} more {lines} no effect", self.file.display()));
        }
    }
}
