//! What a file of records holds, in a few words.

use std::path::Path;

use ulpscope_formats::file::Format;
use ulpscope_formats::msprobe::{ConstructJson, DumpJson, Item, StackJson};
use ulpscope_formats::pkl_lines::{self, Kind, Line, Lines};
use ulpscope_formats::{Bytes, Error};
use ulpscope_report::{Cell, Record};

/// The summary of a file of records; nothing when the file holds tensors.
pub(crate) fn summary(path: &Path, format: Format, bytes: &Bytes) -> Result<Option<Record>, Error> {
    match format {
        Format::PklLines => Ok(of_lines(bytes)),
        Format::Msprobe => of_json(path, bytes).map(Some),
        _ => Ok(None),
    }
}

fn of_lines(bytes: &Bytes) -> Option<Record> {
    let kind = match pkl_lines::kind(bytes) {
        Some(Kind::HooksFull | Kind::HooksOverflow) => return None,
        Some(Kind::HooksSample) => "torch_npu.hooks, sampled values",
        Some(Kind::Ptdbg4) => "ptdbg_ascend before 6.0",
        Some(Kind::Ptdbg6) => "ptdbg_ascend 6.0",
        None => "lines of an unknown kind",
    };
    let (mut entries, mut stacks, mut others, mut unread) = (0, 0, 0, 0);
    for line in Lines::new(bytes) {
        match line {
            Ok((_, Line::HooksTensor { .. } | Line::HooksValue { .. } | Line::PtdbgEntry { .. })) => {
                entries += 1;
            }
            Ok((_, Line::HooksFrame { .. } | Line::Stack { .. })) => stacks += 1,
            Ok((_, Line::Other(_))) => others += 1,
            Err(_) => unread += 1,
        }
    }
    Some(Record::new(vec![
        ("kind", Cell::text(kind)),
        ("entries", Cell::count(entries)),
        ("stacks", Cell::count(stacks)),
        ("other_lines", Cell::count(others)),
        ("unreadable_lines", Cell::count(unread)),
    ]))
}

/// The content of an empty stack and an empty construct is the same: the name tells.
fn of_json(path: &Path, bytes: &Bytes) -> Result<Record, Error> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem.ends_with("stack") {
        let mut calls = 0;
        let stacks = complete(StackJson::new(bytes)?, |stack| calls += stack.names.len() as u64);
        Ok(record(
            "msprobe stacks",
            vec![("stacks", Cell::count(stacks.0)), ("calls", Cell::count(calls))],
            stacks.1,
        ))
    } else if stem.ends_with("construct") {
        let links = complete(ConstructJson::new(bytes)?, |_| {});
        Ok(record("msprobe construct", vec![("links", Cell::count(links.0))], links.1))
    } else {
        let mut dump = DumpJson::new(bytes)?;
        let mut tensors = 0;
        let (calls, end) = complete(&mut dump, |call| tensors += count_tensors(&call.body));
        let word = |text: Option<&str>| Cell::maybe(text, Cell::text);
        let fields = vec![
            ("task", word(dump.task())),
            ("level", word(dump.level())),
            ("framework", word(dump.framework())),
            ("calls", Cell::count(calls)),
            ("tensors", Cell::count(tensors)),
        ];
        Ok(record("msprobe dump", fields, end))
    }
}

/// Sees every complete item of a file that may break off; counts them, and says where it broke off.
fn complete<T>(
    items: impl Iterator<Item = Result<T, Error>>,
    mut see: impl FnMut(T),
) -> (u64, Option<Error>) {
    let mut count = 0;
    for item in items {
        match item {
            Ok(item) => {
                count += 1;
                see(item);
            }
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}

fn record(kind: &str, mut fields: Vec<(&'static str, Cell)>, end: Option<Error>) -> Record {
    fields.insert(0, ("kind", Cell::text(kind)));
    fields.extend(end.map(|error| ("breaks_off", Cell::text(error.to_string()))));
    Record::new(fields)
}

/// Depth is bounded by the reader's.
fn count_tensors(item: &Item) -> u64 {
    match item {
        Item::Tensor(_) => 1,
        Item::List(items) => items.iter().map(count_tensors).sum(),
        Item::Dict(pairs) => pairs.iter().map(|(_, item)| count_tensors(item)).sum(),
        _ => 0,
    }
}
