//! Converts files of records: the JSON lines of the oldest tools into msprobe's files, and back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{self, Format, Records};
use ulpscope_formats::records::{PklStyle, Report, ToMsprobe, msprobe_to_pkl, pkl_to_msprobe};
use ulpscope_formats::{Access, Bytes, Error, storage};

/// The files that a conversion of records writes: the target and, for a dump, its stacks.
pub(crate) fn outputs(to: Records, target: &Path) -> Vec<PathBuf> {
    match to {
        Records::Msprobe => vec![target.to_owned(), stacks_beside(target)],
        Records::PklLines => vec![target.to_owned()],
    }
}

/// Converts; `style` is that of the lines of a `.pkl`. The notes say what the target format cannot express, the errors what could not be read.
pub(crate) fn convert(
    source: &Path,
    bytes: &Bytes,
    to: Records,
    style: PklStyle,
    target: &Path,
) -> Result<(Vec<String>, Vec<String>), Error> {
    let mut report = Report::default();
    match to {
        Records::Msprobe => file::write_with(target, |dump| {
            file::write_with(&stacks_beside(target), |stacks| {
                report = bytes.reading(|| pkl_to_msprobe(bytes, &ToMsprobe::default(), dump, stacks))?;
                Ok(())
            })
        })?,
        Records::PklLines => {
            let stacks = stacks_beside(source);
            let stacks =
                if storage::is_file(&stacks) { Some(Bytes::map(&stacks, Access::ReadOnly)?) } else { None };
            file::write_with(target, |lines| {
                report = bytes.reading(|| msprobe_to_pkl(bytes, stacks.as_ref(), style, lines))?;
                stacks.as_ref().map_or(Ok(()), Bytes::check)
            })?;
        }
    }
    Ok(told(source, report))
}

/// The file of stacks that would be written next to `target`, if any. A JSON source already has one, which stays as it
/// is.
pub(crate) fn stacks_of(source: &Path, target: &Path) -> Option<PathBuf> {
    (Format::of_extension(source) != Some(Format::Msprobe)).then(|| stacks_beside(target))
}

/// The file of stacks that belongs to a dump: `dump.json` and `stack.json`, `x.json` and `x_stack.json`.
fn stacks_beside(dump: &Path) -> PathBuf {
    let stem = dump.file_stem().unwrap_or_default().to_string_lossy();
    let name = if stem.contains("dump") { stem.replace("dump", "stack") } else { format!("{stem}_stack") };
    dump.with_file_name(format!("{name}.json"))
}

fn told(source: &Path, report: Report) -> (Vec<String>, Vec<String>) {
    let dropped: BTreeMap<&str, u64> = report.dropped;
    let mut notes: Vec<String> = dropped
        .into_iter()
        .map(|(reason, count)| format!("{}: left out {count} {reason}", source.display()))
        .collect();
    if report.renumbered > 0 {
        notes.push(format!("{}: {} calls got a different number", source.display(), report.renumbered));
    }
    let kept = report.errors.len() as u64;
    let mut errors: Vec<String> =
        report.errors.into_iter().map(|error| error.in_file(source).to_string()).collect();
    if report.error_count > kept {
        errors.push(format!("{}: and {} more", source.display(), report.error_count - kept));
    }
    (notes, errors)
}

/// Copies a file that already has the target format.
pub(crate) fn copy(bytes: &Bytes, target: &Path) -> Result<(), Error> {
    file::write_with(target, |out| bytes.reading(|| out.write_all(bytes).map_err(Error::whole)))
}

/// Whether a file is a stack or construct that belongs to a dump, by its name.
pub(crate) fn goes_with_a_dump(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem.ends_with("stack") || stem == "construct"
}
