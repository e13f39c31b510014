//! `ulpscope compare`: two dumps in, the truth out.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use serde_json::Value;
use ulpscope_compare::{Agreement, Matching};
use ulpscope_dump::{Problems, Select};
use ulpscope_formats::Error;
use ulpscope_formats::file::{self, Unfinished};
use ulpscope_report::{escape, json};

use crate::args::{CompareArgs, NumberRanges, OutputFormat};
use crate::compare::files::{FileOutputs, FileSink};
use crate::compare::result_json::{RankExtras, document};
use crate::compare::{
    Compared, MappingFiles, Request, StyleName, advisor, diff_analyze, execute, rank_label, summary,
};

use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};
use crate::progress::Progress;
use crate::timestamp;

/// Where msprobe's results go when nothing is said.
const MSPROBE_OUTPUT: &str = "output";

/// What `compare` has been asked for.
pub(crate) struct Compare {
    request: Request,
    output: Option<PathBuf>,
    formats: Vec<OutputFormat>,
    diff_analyze: bool,
    json: bool,
    notes: Vec<String>,
}

impl From<CompareArgs> for Compare {
    fn from(args: CompareArgs) -> Compare {
        let as_msprobe = args.target_path.is_some();
        let mut notes = Vec::new();
        let style = args.style.unwrap_or_else(|| {
            if as_msprobe {
                notes.push(
                    "-tp and -gp ask for msprobe's rows; add --style native for our verdicts".to_owned(),
                );
                StyleName::Msprobe
            } else {
                StyleName::Native
            }
        });
        let asked_for_files = args.xlsx || !args.format.is_empty();
        let mut formats = args.format;
        if formats.is_empty() {
            formats = vec![if args.xlsx { OutputFormat::Xlsx } else { OutputFormat::Csv }];
        } else if args.xlsx && !formats.contains(&OutputFormat::Xlsx) {
            formats.push(OutputFormat::Xlsx);
        }
        let output = args.output.or_else(|| as_msprobe.then(|| PathBuf::from(MSPROBE_OUTPUT)));
        if output.is_none() && (asked_for_files || args.diff_analyze) {
            notes.push("nothing is written without -o DIR".to_owned());
        }
        let chosen =
            |numbers: Option<NumberRanges>| numbers.map(|NumberRanges(numbers)| numbers).unwrap_or_default();
        Compare {
            request: Request {
                target: args.target_path.or(args.target).unwrap_or_default(),
                golden: args.golden_path.or(args.golden).unwrap_or_default(),
                style,
                matching: if args.fuzzy_match { Some(Matching::Fuzzy) } else { args.matching },
                mapping: MappingFiles {
                    data: args.data_mapping,
                    cell: args.cell_mapping,
                    layer: args.layer_mapping,
                },
                stack_column: args.stack_mode,
                noise: args.noise,
                select: Select { steps: chosen(args.step), ranks: chosen(args.rank) },
            },
            output,
            formats,
            diff_analyze: args.diff_analyze,
            json: args.json,
            notes,
        }
    }
}

impl Compare {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        // Before hours of work, not after: a folder that cannot be written.
        if let Some(folder) = &self.output {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let outputs = FileOutputs {
            folder: self.output.clone().unwrap_or_default(),
            timestamp: timestamp::now(self.output.as_deref()),
            style: self.request.style,
            csv: self.output.is_some() && self.formats.contains(&OutputFormat::Csv),
            xlsx: self.output.is_some() && self.formats.contains(&OutputFormat::Xlsx),
        };
        let progress = CallProgress { bar: Progress::of_calls("comparing"), bytes: AtomicU64::new(0) };
        let mut compared = execute(self.request.clone(), &outputs, &progress)?;
        drop(progress);

        let mut failures = Vec::new();
        let sheets = finish_sheets(&mut compared, &mut failures);
        let document = document(&compared, |number, sink: &FileSink| RankExtras {
            columns: &sink.columns,
            rows: &sink.kept,
            files: &sheets[number],
        });
        let mut written: Vec<PathBuf> = sheets.iter().flatten().cloned().collect();
        if self.output.is_some() {
            self.write_documents(&compared, &outputs, &document, &mut written, &mut failures);
        }
        let shown =
            if self.json { output.json(&document) } else { summary::show(&compared, &written, output) };
        unless_broken_pipe(shown)?;
        self.complain(&compared, &failures, output);
        let written = if failures.is_empty() { Exit::Done } else { Exit::Failed };
        Ok(written.max(exit_of(&compared.agreement)))
    }

    /// The files beside the sheets.
    fn write_documents(
        &self,
        compared: &Compared<FileSink>,
        outputs: &FileOutputs,
        document: &Value,
        written: &mut Vec<PathBuf>,
        failures: &mut Vec<String>,
    ) {
        let mut write = |path: PathBuf, text: String| match write_beside(&path, &text) {
            Ok(path) => written.push(path),
            Err(error) => failures.push(format!("{}: {error}", path.display())),
        };
        let several = compared.ranks.len() > 1;
        for rank in &compared.ranks {
            let Ok((outcome, _)) = &rank.result else { continue };
            if let Some(text) = advisor::text(compared, rank, outcome) {
                let label = rank_label(rank, several).replace(' ', "_");
                let name = if label.is_empty() { "advisor".to_owned() } else { format!("advisor_{label}") };
                write(outputs.path(&name, "txt"), escape::lines(&text).into_owned());
            }
        }
        if self.diff_analyze {
            let analysis = json::document(&diff_analyze::document(compared));
            write(outputs.path("diff_analyze", "json"), analysis);
        }
        // Whatever sheets were asked for: `explain` needs it.
        let path = outputs.folder.join("result.json");
        match write_text(&path, &json::document(document)) {
            Ok(()) => written.push(path),
            Err(error) => failures.push(error.to_string()),
        }
    }

    /// Everything that was left out, could not be read or could not be written.
    fn complain(&self, compared: &Compared<FileSink>, failures: &[String], output: &mut Output) {
        let mut notes = self.notes.clone();
        notes.extend(compared.lone_ranks.iter().chain(&compared.notes).cloned());
        let mut known: HashSet<String> = notes.iter().cloned().collect();
        let several = compared.ranks.len() > 1;
        let unread = compared.errors().map(|(rank, error)| match rank_label(rank, several) {
            label if label.is_empty() => error.to_string(),
            label => format!("{label}: {error}"),
        });
        let mut errors: Vec<String> = unread.collect();
        errors.extend(listed(&compared.problems));
        for outcome in compared.outcomes() {
            notes.extend(outcome.notes.iter().filter(|&note| known.insert(note.clone())).cloned());
            errors.extend(listed(&outcome.problems));
        }
        errors.extend_from_slice(failures);
        output.notes_and_errors(&notes, &errors);
    }
}

/// What could not be read, and how much more there is.
fn listed(problems: &Problems) -> Vec<String> {
    let mut lines = problems.listed().to_vec();
    let more = problems.unlisted();
    if more > 0 {
        lines.push(format!("and {more} more could not be read"));
    }
    lines
}

fn exit_of(agreement: &Agreement) -> Exit {
    match agreement.exit_code() {
        0 => Exit::Done,
        1 => Exit::Differ,
        _ => Exit::NotRead,
    }
}

/// Gives the sheets of every rank their names; what cannot be written is a failure.
fn finish_sheets(compared: &mut Compared<FileSink>, failures: &mut Vec<String>) -> Vec<Vec<PathBuf>> {
    let ranks = compared.ranks.iter_mut();
    ranks
        .map(|rank| match &mut rank.result {
            Err(_) => Vec::new(),
            Ok((_, sink)) => {
                let (written, failed) = sink.finish();
                failures.extend(failed.into_iter().map(|error| format!("cannot write the result: {error}")));
                written
            }
        })
        .collect()
}

/// Writes a file whose name no other has; tells the name.
fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    let unfinished = Unfinished::create(path)?;
    unfinished.file().write_all(text.as_bytes())?;
    unfinished.finish_beside()
}

fn write_text(path: &Path, text: &str) -> Result<(), Error> {
    file::write_with(path, |out| out.write_all(text.as_bytes()).map_err(Error::whole))
}

/// Shows how many calls are done, and how fast bytes go by.
struct CallProgress {
    bar: Progress,
    bytes: AtomicU64,
}

impl ulpscope_compare::Progress for CallProgress {
    fn start(&self, units: u64) {
        self.bar.more(units);
    }

    fn advance(&self, bytes: u64) {
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.bar.step_with_bytes(bytes);
    }
}
