//! `ulpscope stats`: the statistics of files.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rayon::prelude::*;
use ulpscope_compare::results;
use ulpscope_formats::{Error, Tensor, Value, file};
use ulpscope_kernels::{DigestKind, Threads, digest, stats};
use ulpscope_report::{Cell, Record};

use crate::args::{DigestName, StatsArgs};
use crate::exit::Exit;
use crate::names::PlainNames;
use crate::output::Output;
use crate::progress::Progress;
use crate::source::{Source, is_foreign, label};
use crate::stats_report::StatsReport;
use crate::values;
use crate::walk::{Found, Walk};

/// Values shown per tensor by default.
const DEFAULT_FIRST: usize = 8;

/// Files that are measured at a time, for each thread.
const FILES_PER_THREAD: usize = 4;

/// Tensors of one file that are described at a time: one description takes some kilobytes.
const TENSORS_TOGETHER: usize = 256;

/// The request of `stats`.
pub(crate) struct Stats {
    paths: Vec<PathBuf>,
    json: bool,
    text_folder: Option<PathBuf>,
    first: Option<usize>,
    digest: Option<(&'static str, DigestKind)>,
}

impl TryFrom<StatsArgs> for Stats {
    type Error = anyhow::Error;

    fn try_from(args: StatsArgs) -> anyhow::Result<Stats> {
        if let Some(folder) = &args.txt {
            fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        }
        let digest = args.digest.map(|name| match name {
            DigestName::Crc32 => ("crc32", DigestKind::Crc32),
            DigestName::Md5 => ("md5", DigestKind::Md5),
            DigestName::Xxh3 => ("xxh3", DigestKind::Xxh3),
            DigestName::Mix64 => ("mix64", DigestKind::Mix64),
        });
        Ok(Stats { paths: args.paths, json: args.json, text_folder: args.txt, first: args.first, digest })
    }
}

/// The measurements of one file.
struct Measured {
    content: Content,
    /// Whether it is empty, without even a scalar.
    is_empty: bool,
    notes: Vec<String>,
    errors: Vec<String>,
}

enum Content {
    /// Few enough tensors to keep their descriptions in memory.
    Described(Vec<(String, Record)>),
    /// More: they are described in portions when the file is reported.
    Many(Value),
    Summary(Record),
}

impl Stats {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let walk = Walk::of(&self.paths, None);
        let progress = Progress::of_steps("reading", walk.files.len());
        let mut notes = walk.notes();
        let mut errors: Vec<String> = walk.errors();
        errors.extend(walk.empty_folders(&self.paths));
        let mut foreign = 0;
        let mut is_empty = true;
        let mut report = self.report(output)?;
        // Enough files at a time to keep every thread busy, and no more: results wait in memory.
        for files in walk.files.chunks(FILES_PER_THREAD * rayon::current_num_threads()) {
            let results: Vec<Result<Measured, Error>> = files
                .par_iter()
                .map(|found| {
                    let result = self.measure(found);
                    progress.step();
                    result
                })
                .collect();
            for (found, result) in files.iter().zip(results) {
                match result {
                    Ok(measured) => {
                        is_empty &= measured.is_empty;
                        notes.extend(measured.notes);
                        errors.extend(measured.errors);
                        self.add(found, measured.content, &mut report, &mut errors, output)?;
                    }
                    Err(error) if !found.named && is_foreign(&error) => foreign += 1,
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
        drop(progress);
        if foreign > 0 {
            walk.report_foreign(foreign, &mut notes, &mut errors);
        }
        if is_empty && errors.is_empty() {
            let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            errors.push(format!("{}: no tensors and no values", paths.join(", ")));
        }
        report.finish(&notes, &errors, output)?;
        output.notes_and_errors(&notes, &errors);
        Ok(Exit::of_reading(&errors))
    }

    fn report(&self, output: &mut Output) -> anyhow::Result<StatsReport> {
        if self.json {
            return StatsReport::json(output);
        }
        let digest = self.digest.map(|(name, _)| name);
        Ok(StatsReport::tables(digest.into_iter().chain(self.first.map(|_| "first")).collect()))
    }

    fn measure(&self, found: &Found) -> Result<Measured, Error> {
        let value = match Source::read(&found.path)? {
            Source::Records(summary) => {
                let content = Content::Summary(summary.record);
                return Ok(Measured { content, is_empty: false, notes: Vec::new(), errors: summary.errors });
            }
            Source::Tensors(value) => value,
        };
        let said = |(part, reason): (String, &str)| format!("{}: {reason}", label(&found.path, &part));
        let notes = value.opaque().into_iter().map(said).collect();
        let mut errors: Vec<String> = value.unread().into_iter().map(said).collect();
        let is_empty = value.is_empty();
        let tensors = value.tensors();
        let content = if tensors.len() > TENSORS_TOGETHER {
            Content::Many(value)
        } else {
            Content::Described(self.describe_all(found, tensors, &mut PlainNames::default(), &mut errors))
        };
        Ok(Measured { content, is_empty, notes, errors })
    }

    /// Adds the next file to the report.
    fn add(
        &self,
        found: &Found,
        content: Content,
        report: &mut StatsReport,
        errors: &mut Vec<String>,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        let mut rows = |rows: Vec<(String, Record)>, report: &mut StatsReport| {
            rows.into_iter().try_for_each(|(name, record)| report.tensor(&found.path, name, record, output))
        };
        match content {
            Content::Described(described) if described.is_empty() => {
                report.without_tensors(&found.path, None, output)
            }
            Content::Described(described) => rows(described, report),
            Content::Many(value) => {
                let mut names = PlainNames::default();
                let mut tensors = value.tensors();
                while !tensors.is_empty() {
                    let batch = tensors.drain(..tensors.len().min(TENSORS_TOGETHER)).collect();
                    rows(self.describe_all(found, batch, &mut names, errors), report)?;
                }
                Ok(())
            }
            Content::Summary(summary) => report.without_tensors(&found.path, Some(summary), output),
        }
    }

    /// Describes tensors of a file, and writes their values if requested.
    fn describe_all(
        &self,
        found: &Found,
        tensors: Vec<(String, &Tensor)>,
        names: &mut PlainNames,
        errors: &mut Vec<String>,
    ) -> Vec<(String, Record)> {
        if let Some(folder) = &self.text_folder {
            for (name, tensor) in &tensors {
                if let Err(error) = write_text(folder.join(&found.relative), name, tensor, names) {
                    errors.push(error.to_string());
                }
            }
        }
        let described: Vec<Result<(String, Record), Error>> = tensors
            .into_par_iter()
            .map(|(name, tensor)| {
                let record = self.describe(tensor);
                tensor.check().map(|()| (name, record))
            })
            .collect();
        let mut rows = Vec::with_capacity(described.len());
        for one in described {
            match one {
                Ok(row) => rows.push(row),
                // It concerns the file, not the tensor: report it once.
                Err(error) if errors.last() == Some(&error.to_string()) => {}
                Err(error) => errors.push(error.to_string()),
            }
        }
        rows
    }

    fn describe(&self, tensor: &Tensor) -> Record {
        let view = tensor.view();
        let mut record = results::of_stats(view.dtype(), view.shape(), &stats(&view, Threads::All));
        if let Some((name, kind)) = self.digest {
            record.fields.push((name, Cell::text(digest(&view, kind).to_string())));
        }
        record.fields.push(("first", results::first_values(&view, self.first.unwrap_or(DEFAULT_FIRST))));
        record
    }
}

/// Writes the values to `base.txt`, or `base.NAME.txt` for a tensor that has a name.
fn write_text(base: PathBuf, name: &str, tensor: &Tensor, names: &mut PlainNames) -> Result<(), Error> {
    let mut path = base.into_os_string();
    if !name.is_empty() {
        path.push(".");
        path.push(names.give(name));
    }
    path.push(".txt");
    let path = PathBuf::from(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| Error::whole(error).in_file(parent))?;
    }
    file::write_with(&path, |out| {
        let write = || values::write_text(&tensor.view(), out).map_err(Error::whole);
        tensor.storage().reading(write)
    })
}
