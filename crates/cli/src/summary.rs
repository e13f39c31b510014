//! Summaries of files of records.

use std::path::Path;

use ulpscope_formats::file::{Format, Records};
use ulpscope_formats::msprobe::{ConstructJson, DumpJson, Item, StackJson};
use ulpscope_formats::pkl_lines::{self, Kind, Line, Lines};
use ulpscope_formats::{Bytes, Error};
use ulpscope_report::{Cell, Record};

/// The summary of a file of records, and what could not be read.
pub(crate) struct Summary {
    pub(crate) record: Record,
    pub(crate) errors: Vec<String>,
}

/// The summary of a file of records; `None` if the file holds tensors.
pub(crate) fn summary(path: &Path, format: Format, bytes: &Bytes) -> Result<Option<Summary>, Error> {
    match format.records() {
        Some(Records::PklLines) => Ok(of_lines(path, bytes)),
        Some(Records::Msprobe) => of_json(path, bytes).map(Some),
        None => Ok(None),
    }
}

fn of_lines(path: &Path, bytes: &Bytes) -> Option<Summary> {
    let kind = match pkl_lines::kind(bytes) {
        Some(Kind::HooksFull | Kind::HooksOverflow) => return None,
        Some(Kind::HooksSample) => "torch_npu.hooks, sampled values",
        Some(Kind::Ptdbg4) => "ptdbg_ascend before 6.0",
        Some(Kind::Ptdbg6) => "ptdbg_ascend 6.0",
        None => "lines of an unknown kind",
    };
    let (mut entries, mut stacks, mut others, mut unread) = (0, 0, 0, 0);
    let mut errors = Vec::new();
    for line in Lines::new(bytes) {
        match line {
            Ok((_, Line::HooksTensor { .. } | Line::HooksValue { .. } | Line::PtdbgEntry { .. })) => {
                entries += 1;
            }
            Ok((_, Line::HooksFrame { .. } | Line::Stack { .. })) => stacks += 1,
            Ok((_, Line::Other(_))) => others += 1,
            Err(error) => {
                unread += 1;
                // Further ones are only counted.
                if errors.is_empty() {
                    errors.push(error.in_file(path).to_string());
                }
            }
        }
    }
    if entries + stacks + others + unread == 0 {
        errors.push(format!("{}: holds no lines", path.display()));
    }
    if unread > 1 {
        errors.push(format!("{}: {} more lines cannot be read", path.display(), unread - 1));
    }
    let record = Record::new(vec![
        ("kind", Cell::text(kind)),
        ("entries", Cell::count(entries)),
        ("stacks", Cell::count(stacks)),
        ("other_lines", Cell::count(others)),
        ("unreadable_lines", Cell::count(unread)),
    ]);
    Some(Summary { record, errors })
}

/// An empty stack and an empty construct have the same content: the name decides.
fn of_json(path: &Path, bytes: &Bytes) -> Result<Summary, Error> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if stem.ends_with("stack") {
        let mut calls = 0;
        let stacks = complete(StackJson::new(bytes)?, |stack| calls += stack.names.len() as u64);
        Ok(record(
            "msprobe stacks",
            vec![("stacks", Cell::count(stacks.0)), ("calls", Cell::count(calls))],
            path,
            stacks.1,
        ))
    } else if stem.ends_with("construct") {
        let links = complete(ConstructJson::new(bytes)?, |_| {});
        Ok(record("msprobe construct", vec![("links", Cell::count(links.0))], path, links.1))
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
        Ok(record("msprobe dump", fields, path, end))
    }
}

/// Visits every complete item of a possibly truncated file; counts them, and reports where it breaks off.
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

fn record(kind: &str, mut fields: Vec<(&'static str, Cell)>, path: &Path, end: Option<Error>) -> Summary {
    fields.insert(0, ("kind", Cell::text(kind)));
    fields.extend(end.as_ref().map(|error| ("breaks_off", Cell::text(error.to_string()))));
    let errors = end.map(|error| error.in_file(path).to_string()).into_iter().collect();
    Summary { record: Record::new(fields), errors }
}

/// The reader limits the depth.
fn count_tensors(item: &Item) -> u64 {
    match item {
        Item::Tensor(_) => 1,
        Item::List(items) => items.iter().map(count_tensors).sum(),
        Item::Dict(pairs) => pairs.iter().map(|(_, item)| count_tensors(item)).sum(),
        _ => 0,
    }
}
