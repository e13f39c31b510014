//! `ulpscope stats`: what is in these files.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rayon::prelude::*;
use serde_json::json;
use ulpscope_compare::results;
use ulpscope_formats::{Error, Tensor, file};
use ulpscope_kernels::{DigestKind, Threads, digest, stats};
use ulpscope_report::{Align, Cell, Emphasis, Record, Table};

use crate::args::{DigestName, StatsArgs};
use crate::exit::Exit;
use crate::names::PlainNames;
use crate::output::Output;
use crate::progress::Progress;
use crate::source::{Source, is_foreign, label, tensors};
use crate::values;
use crate::walk::{Found, Walk};

/// Values shown of a tensor when nobody says how many.
const DEFAULT_FIRST: usize = 8;

/// The fields of a row when there are several tensors; the others are in the JSON, and in the view of one.
const COLUMNS: [&str; 11] =
    ["shape", "dtype", "max", "min", "mean", "norm", "nan", "pos_inf", "neg_inf", "zeros", "subnormals"];

/// What `stats` has been asked for.
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
        });
        Ok(Stats { paths: args.paths, json: args.json, text_folder: args.txt, first: args.first, digest })
    }
}

/// What was found out about one file.
struct Measured {
    path: PathBuf,
    tensors: Vec<(String, Record)>,
    summary: Option<Record>,
    notes: Vec<String>,
    errors: Vec<String>,
}

impl Stats {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let walk = Walk::of(&self.paths, None);
        let progress = Progress::of_steps("reading", walk.files.len());
        let results: Vec<Result<Measured, Error>> = walk
            .files
            .par_iter()
            .map(|found| {
                let result = self.measure(found);
                progress.step();
                result
            })
            .collect();
        drop(progress);

        let mut notes = walk.notes();
        let mut errors: Vec<String> = walk.errors();
        let mut foreign = 0;
        let mut measured = Vec::new();
        for (found, result) in walk.files.iter().zip(results) {
            match result {
                Ok(mut one) => {
                    notes.append(&mut one.notes);
                    errors.append(&mut one.errors);
                    measured.push(one);
                }
                Err(error) if !found.named && is_foreign(&error) => foreign += 1,
                Err(error) => errors.push(error.to_string()),
            }
        }
        if foreign > 0 {
            notes.push(format!("{foreign} of {} files are of no known format", walk.files.len()));
        }
        if self.json {
            output.json(&to_json(&measured, &errors))?;
        } else {
            self.show(&measured, output)?;
        }
        output.notes_and_errors(&notes, &errors);
        Ok(if errors.is_empty() { Exit::Done } else { Exit::Failed })
    }

    fn measure(&self, found: &Found) -> Result<Measured, Error> {
        let mut measured = Measured {
            path: found.path.clone(),
            tensors: Vec::new(),
            summary: None,
            notes: Vec::new(),
            errors: Vec::new(),
        };
        let value = match Source::read(&found.path)? {
            Source::Records(summary) => {
                measured.summary = Some(summary);
                return Ok(measured);
            }
            Source::Tensors(value) => value,
        };
        for (part, reason) in value.opaque() {
            measured.notes.push(format!("{}: {reason}", label(&found.path, &part)));
        }
        for (part, reason) in value.unread() {
            measured.errors.push(format!("{}: {reason}", label(&found.path, &part)));
        }
        let mut names = PlainNames::default();
        for (name, tensor) in tensors(&value) {
            let described = self.describe(&tensor);
            tensor.check()?;
            measured.tensors.push((name.clone(), described));
            if let Some(folder) = &self.text_folder
                && let Err(error) = write_text(folder.join(&found.relative), &name, &tensor, &mut names)
            {
                measured.errors.push(error.to_string());
            }
        }
        Ok(measured)
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

    fn show(&self, measured: &[Measured], output: &mut Output) -> anyhow::Result<()> {
        let rows: Vec<(String, &Record)> = measured
            .iter()
            .flat_map(|file| file.tensors.iter().map(|(name, record)| (label(&file.path, name), record)))
            .collect();
        match rows.as_slice() {
            [] => {}
            [(name, record)] => output.table(&Table::of_record(name.as_str(), record))?,
            rows => output.table(&self.overview(rows))?,
        }
        for (index, file) in measured.iter().enumerate() {
            if let Some(summary) = &file.summary {
                if index > 0 {
                    output.line("")?;
                }
                output.table(&Table::of_record(file.path.display().to_string(), summary))?;
            } else if file.tensors.is_empty() {
                output.line(&format!("{}: holds no tensors", file.path.display()))?;
            }
        }
        Ok(())
    }

    fn overview(&self, rows: &[(String, &Record)]) -> Table {
        let mut fields = COLUMNS.to_vec();
        fields.extend(self.digest.map(|(name, _)| name));
        fields.extend(self.first.map(|_| "first"));
        let mut columns = vec![("name", Align::Left)];
        columns.extend(fields.iter().map(|&field| {
            (field, if matches!(field, "shape" | "dtype" | "first") { Align::Left } else { Align::Right })
        }));
        let mut table = Table::new("", &columns);
        for (name, record) in rows {
            let bad = ["nan", "pos_inf", "neg_inf"]
                .iter()
                .any(|field| record.get(field).is_some_and(|cell| *cell != Cell::Int(0)));
            let mut cells = vec![Cell::text(name)];
            cells.extend(fields.iter().map(|field| record.get(field).cloned().unwrap_or(Cell::Missing)));
            table.push(cells, if bad { Emphasis::Bad } else { Emphasis::Plain });
        }
        table
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

fn to_json(measured: &[Measured], errors: &[String]) -> serde_json::Value {
    let mut tensors = Vec::new();
    let mut records = Vec::new();
    for file in measured {
        let path = Cell::text(file.path.display().to_string());
        for (name, record) in &file.tensors {
            let mut fields = vec![("file", path.clone()), ("name", Cell::text(name))];
            fields.extend(record.fields.iter().cloned());
            tensors.push(Record::new(fields).to_json());
        }
        if let Some(summary) = &file.summary {
            let mut fields = vec![("file", path)];
            fields.extend(summary.fields.iter().cloned());
            records.push(Record::new(fields).to_json());
        }
    }
    json!({ "tensors": tensors, "records": records, "errors": errors })
}
