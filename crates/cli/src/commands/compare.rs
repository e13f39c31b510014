//! `ulpscope compare`: compares two dumps, shows the summary and writes the result files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use ulpscope_compare::{Agreement, Matching, Prover};
use ulpscope_dump::{Problems, Select};
use ulpscope_page::{DumpPlaces, PageOptions, REPORT, ResultFolder, page_of_result};
use ulpscope_report::SheetFormat;
use ulpscope_report::page::Template;
use ulpscope_session::units::{Dispatcher, DumpNodes, Elsewhere, MOVE_LIMIT, ResultFolders};
use ulpscope_session::{
    Compared, FileOutputs, FileSink, MappingFiles, NumberRanges, Request, StyleName, Threads, execute,
    rank_label, summary, write,
};

use crate::WriteDatabase;
use crate::args::{CompareArgs, OutputFormat, language};
use crate::commands::page;
use crate::exit::Exit;
use crate::output::{Output, unless_broken_pipe};
use crate::progress::Progress;
use crate::result_document::RESULT;

/// The default folder of msprobe's results.
const MSPROBE_OUTPUT: &str = "output";

/// The request of `compare`.
pub(crate) struct Compare {
    request: Request,
    output: Option<PathBuf>,
    formats: Vec<SheetFormat>,
    /// Whether to write a page.
    page: bool,
    /// Whether to write a database.
    database: bool,
    diff_analyze: bool,
    json: bool,
    nodes: DumpNodes,
    resume: bool,
    notes: Vec<String>,
}

/// What Python does for a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) prover: Option<&'a (dyn Prover + Send)>,
    pub(crate) dispatcher: Option<&'a (dyn Dispatcher + Send)>,
    pub(crate) database: Option<WriteDatabase<'a>>,
}

impl TryFrom<CompareArgs> for Compare {
    type Error = anyhow::Error;

    fn try_from(args: CompareArgs) -> anyhow::Result<Compare> {
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
        let formats = sheets(&args.format, args.xlsx);
        let output = args.output.or_else(|| as_msprobe.then(|| PathBuf::from(MSPROBE_OUTPUT)));
        if output.is_none() && (asked_for_files || args.diff_analyze) {
            notes.push("nothing is written without -o DIR".to_owned());
        }
        let chosen =
            |numbers: Option<NumberRanges>| numbers.map(|NumberRanges(numbers)| numbers).unwrap_or_default();
        Ok(Compare {
            request: Request {
                target: args.target_path.or(args.target).unwrap_or_default(),
                golden: args.golden_path.or(args.golden).unwrap_or_default(),
                target_data: args.target_data,
                golden_data: args.golden_data,
                style,
                matching: if args.fuzzy_match { Some(Matching::Fuzzy) } else { args.matching },
                mapping: MappingFiles {
                    data: args.data_mapping,
                    cell: args.cell_mapping,
                    layer: args.layer_mapping,
                },
                stack_column: args.stack_mode,
                noise: args.noise,
                parallel: args.parallel,
                select: Select { steps: chosen(args.step), ranks: chosen(args.rank) },
                language: language(args.lang)?,
            },
            output,
            formats,
            page: args.format.contains(&OutputFormat::Html),
            database: args.format.contains(&OutputFormat::Sqlite),
            diff_analyze: args.diff_analyze,
            json: args.json,
            nodes: DumpNodes {
                located: args.engine.located()?,
                move_limit: args.moving.move_limit.unwrap_or(MOVE_LIMIT),
            },
            resume: args.engine.resume,
            notes,
        })
    }
}

impl Compare {
    pub(crate) fn run(self, parts: Parts<'_>, output: &mut Output) -> anyhow::Result<Exit> {
        // Report a missing page or an unwritable folder before hours of work, not after.
        if self.page {
            Template::built()?;
        }
        if let Some(folder) = &self.output {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let (mut compared, outputs) = match parts.dispatcher {
            Some(dispatcher) => self.compare_elsewhere(dispatcher)?,
            None => self.compare_here(parts.prover)?,
        };
        let mut written = write(&mut compared, &outputs, self.diff_analyze);
        if let Some(folder) = self.output.as_ref().filter(|_| self.page) {
            match self.write_page(folder) {
                Ok(path) => written.files.push(path),
                Err(error) => written.failures.push(error.to_string()),
            }
        }
        if let Some((folder, write)) = self.output.as_ref().zip(parts.database).filter(|_| self.database) {
            match write(folder) {
                Ok(path) => written.files.push(path),
                Err(error) => written.failures.push(error),
            }
        }
        let shown = if self.json {
            output.json(&written.document)
        } else {
            summary(&compared, &written.files).iter().try_for_each(|block| output.block(block))
        };
        unless_broken_pipe(shown)?;
        self.complain(&compared, &written.failures, output);
        let written = if written.failures.is_empty() { Exit::Done } else { Exit::Failed };
        Ok(written.max(exit_of(&compared.agreement)))
    }

    fn compare_here(
        &self,
        prover: Option<&(dyn Prover + Send)>,
    ) -> anyhow::Result<(Compared<FileSink>, FileOutputs)> {
        let outputs = FileOutputs::new(self.output.clone(), self.request.style, self.formats.clone());
        let progress = CallProgress::new();
        let prover = prover.map(|prover| prover as &dyn Prover);
        let engine = Threads { outputs: &outputs, progress: &progress, prover };
        let compared = execute(self.request.clone(), &engine)?;
        Ok((compared, outputs))
    }

    fn compare_elsewhere(
        &self,
        dispatcher: &(dyn Dispatcher + Send),
    ) -> anyhow::Result<(Compared<FileSink>, FileOutputs)> {
        let formats = if self.output.is_some() { self.formats.clone() } else { Vec::new() };
        let folders = ResultFolders { results: self.output.as_deref(), formats: &formats };
        let engine: Elsewhere<'_, FileSink> =
            Elsewhere::new(dispatcher, &self.request, self.nodes.clone(), folders, self.resume)
                .context("the answers of ranks cannot be saved")?;
        let outputs =
            FileOutputs::named(self.output.clone(), self.request.style, formats, engine.timestamp());
        Ok((execute(self.request.clone(), &engine)?, outputs))
    }

    /// Writes the page of the result in a folder.
    fn write_page(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let result = ResultFolder::open(&folder.join(RESULT))?;
        let options = PageOptions {
            dumps: Some(DumpPlaces::default()),
            on_demand: false,
            language: Some(self.request.language),
        };
        let path = folder.join(REPORT);
        page::write_page(&page_of_result(&result, options)?, &path)?;
        Ok(path)
    }

    /// Reports everything that was left out, or could not be read or written.
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
            let of_rank = outcome.notes.iter().map(ToString::to_string);
            notes.extend(of_rank.filter(|note| known.insert(note.clone())));
            errors.extend(listed(&outcome.problems));
        }
        errors.extend_from_slice(failures);
        output.notes_and_errors(&notes, &errors);
    }
}

/// The requested sheets, in the order in which they are written: csv, unless something else was requested.
fn sheets(requested: &[OutputFormat], xlsx: bool) -> Vec<SheetFormat> {
    let is_requested = |format: &SheetFormat| {
        requested.contains(&OutputFormat::Sheet(*format))
            || *format == SheetFormat::Xlsx && xlsx
            // A page and a database are made from sheets.
            || *format == SheetFormat::Csv
                && [OutputFormat::Html, OutputFormat::Sqlite].iter().any(|made| requested.contains(made))
            || *format == SheetFormat::Csv && requested.is_empty() && !xlsx
    };
    SheetFormat::ALL.into_iter().filter(is_requested).collect()
}

/// What could not be read, and how many more.
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

/// Shows how many calls are done, and the throughput in bytes.
pub(crate) struct CallProgress {
    bar: Progress,
    bytes: AtomicU64,
}

impl CallProgress {
    pub(crate) fn new() -> CallProgress {
        CallProgress { bar: Progress::of_calls("comparing"), bytes: AtomicU64::new(0) }
    }
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
