//! A dump as the older tools read it: line by line, without regard to where a call begins or ends.
//!
//! They group lines by their own rules, which sometimes merge the lines of two calls or split those of one. So entries
//! are read in order, and only their position in that order is kept.

use ulpscope_dump::{Content, Entry, Error, Rank};

/// Where a line is: the number of its call, and its number among the entries there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinePlace {
    pub(crate) call: u32,
    entry: u32,
}

/// An event of the walk through a dump.
pub(crate) enum Met<'a> {
    /// A line.
    Line(LinePlace, &'a Entry),
    /// The end of a call.
    CallEnd(usize),
    /// A call that cannot be read, at the place of its first line.
    Unread(LinePlace, Error),
}

/// Visits all entries that are lines to the tool.
pub(crate) fn walk(rank: &Rank, is_line: fn(&Entry) -> bool, mut meet: impl FnMut(Met<'_>)) {
    for call in 0..rank.calls().len() {
        match rank.entries(call) {
            Ok(entries) => {
                for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| is_line(entry)) {
                    meet(Met::Line(LinePlace { call: call as u32, entry: number as u32 }, entry));
                }
                meet(Met::CallEnd(call));
            }
            Err(error) => meet(Met::Unread(LinePlace { call: call as u32, entry: 0 }, error)),
        }
    }
}

/// Reads a number of lines from a place on. Unreadable calls were skipped before.
pub(crate) fn read(rank: &Rank, is_line: fn(&Entry) -> bool, from: LinePlace, count: usize) -> Vec<Entry> {
    let mut lines = Vec::with_capacity(count);
    let mut skip = from.entry as usize;
    for call in from.call as usize..rank.calls().len() {
        if lines.len() == count {
            break;
        }
        let Ok(entries) = rank.entries(call) else { continue };
        let wanted = count - lines.len();
        lines.extend(entries.into_iter().skip(skip).filter(is_line).take(wanted));
        skip = 0;
    }
    lines
}

/// Whether torch_npu.hooks writes a line for an entry.
pub(crate) fn is_tensor(entry: &Entry) -> bool {
    matches!(entry.content, Content::Tensor(_))
}

/// Whether ptdbg_ascend writes a line for an entry.
pub(crate) fn is_tensor_or_number(entry: &Entry) -> bool {
    match &entry.content {
        Content::Scalar { kind, .. } => matches!(kind.as_str(), "int" | "float" | "bool"),
        _ => is_tensor(entry),
    }
}

/// The part of a line's name that its call shares: `Functional_conv2d_0_forward`.
fn stem(name: &str) -> &str {
    let end = name.find("input").or_else(|| name.find("output")).unwrap_or(name.len());
    name[..end].trim_end_matches(['_', '.'])
}

/// Each call named by lines that follow one another, once.
pub(crate) fn stems<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut stems: Vec<&str> = names.map(stem).collect();
    stems.dedup();
    stems
}
