//! Result sheets in a folder: one name per pair of ranks; a sheet is complete or absent.

use std::io;
use std::path::{Path, PathBuf};

use ulpscope_compare::{Outputs, RankPair, Row, Sink, Verdict};
use ulpscope_dump::AFTER_LAST_STEP;
use ulpscope_formats::file::Unfinished;
use ulpscope_report::{Row as SheetRow, SheetFormat, SheetWriter};

use crate::style_name::StyleName;
use crate::timestamp;

/// Differing rows of a rank kept for `result.json`; the sheet has all of them.
const MAX_KEPT_ROWS: usize = 1000;

/// Those of all ranks together, so that memory does not grow with the number of ranks.
const MAX_ROWS_IN_ALL: usize = 20_000;

/// The sheets of a comparison.
#[derive(Debug)]
pub struct FileOutputs {
    /// Where they are written; `None`: nowhere.
    folder: Option<PathBuf>,
    timestamp: String,
    style: StyleName,
    formats: Vec<SheetFormat>,
    /// Whether sheets replace those of the same name.
    is_final: bool,
}

/// The unfinished sheets of one pair of ranks. A sheet that cannot be written does not end the comparison: the error is
/// reported when it is finished.
pub struct FileSink {
    /// One for each requested format.
    sheets: Vec<Sheet>,
    /// The headings.
    pub(crate) columns: Vec<String>,
    /// The first differing rows.
    pub(crate) kept: Vec<Row>,
    max_kept: usize,
}

/// One sheet.
enum Sheet {
    /// The headings are not known yet. The last says whether it takes its name even if there is such a file.
    Wanted(PathBuf, SheetFormat, bool),
    /// Being written.
    Open(PathBuf, Unfinished, Box<dyn SheetWriter>, bool),
    /// Could not be written.
    Failed(io::Error),
    /// Has its final name.
    Finished(PathBuf),
}

impl Sheet {
    fn open(&mut self, columns: &[String]) {
        let Sheet::Wanted(path, format, is_final) = self else { return };
        let (path, format, is_final) = (std::mem::take(path), *format, *is_final);
        let create = || {
            let unfinished = Unfinished::create(&path)?;
            let writer = format.open(unfinished.file().try_clone()?, columns)?;
            Ok((unfinished, writer))
        };
        *self = match create() {
            Ok((unfinished, writer)) => Sheet::Open(path, unfinished, writer, is_final),
            Err(error) => Sheet::Failed(named(&path, error)),
        };
    }

    fn row(&mut self, row: &SheetRow) {
        if let Sheet::Open(path, _, writer, _) = self
            && let Err(error) = writer.row(row)
        {
            *self = Sheet::Failed(named(path, error));
        }
    }

    /// Gives the sheet its final name, and returns it. A sheet that got no headings is not written.
    fn finish(self) -> io::Result<Option<PathBuf>> {
        match self {
            Sheet::Wanted(..) => Ok(None),
            Sheet::Failed(error) => Err(error),
            Sheet::Finished(path) => Ok(Some(path)),
            Sheet::Open(path, unfinished, writer, is_final) => {
                let name = || match is_final {
                    true => unfinished.finish().map(|()| path.clone()),
                    false => unfinished.finish_beside(),
                };
                writer.finish().and_then(|()| name()).map(Some).map_err(|error| named(&path, error))
            }
        }
    }
}

impl FileOutputs {
    /// Sheets in these formats, named after the current time. Without a folder, none.
    pub fn new(folder: Option<PathBuf>, style: StyleName, formats: Vec<SheetFormat>) -> FileOutputs {
        let timestamp = timestamp::now(folder.as_deref());
        FileOutputs { folder, timestamp, style, formats, is_final: false }
    }

    /// Sheets named after a time that is known. One of an earlier attempt is replaced.
    pub fn named(
        folder: Option<PathBuf>,
        style: StyleName,
        formats: Vec<SheetFormat>,
        timestamp: &str,
    ) -> FileOutputs {
        FileOutputs { folder, timestamp: timestamp.to_owned(), style, formats, is_final: true }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// `compare_result_{timestamp}`, with the ranks and the step in between if there are several.
    fn stem(&self, pair: &RankPair<'_>) -> String {
        let mut stem = "compare_result".to_owned();
        match pair.step {
            Some(step) if pair.several_steps => stem += &format!("_step{step}"),
            None if pair.is_after_last => stem += &format!("_{AFTER_LAST_STEP}"),
            Some(_) | None => {}
        }
        if self.style == StyleName::Msprobe && !pair.target.name.is_empty() {
            // The older tool's scripts look for the rank's own name.
            stem += &format!("_{}", pair.target.name);
        } else if pair.several_ranks {
            stem += &format!("_{}-{}", pair.target.name, pair.golden.name);
        }
        format!("{stem}_{}", self.timestamp)
    }

    /// Whether files replace those of the same name, which an earlier start of the same comparison wrote.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    /// The path of another file of this comparison.
    pub(crate) fn path(&self, folder: &Path, name: &str, suffix: &str) -> PathBuf {
        folder.join(format!("{name}_{}.{suffix}", self.timestamp))
    }
}

impl Outputs for FileOutputs {
    type Sink = FileSink;

    fn open(&self, pair: &RankPair<'_>) -> io::Result<FileSink> {
        let stem = self.stem(pair);
        let sheets = self.folder.iter().flat_map(|folder| {
            let wanted = |format: &SheetFormat| {
                let path = folder.join(format!("{stem}.{}", format.name()));
                Sheet::Wanted(path, *format, self.is_final)
            };
            self.formats.iter().map(wanted)
        });
        let max_kept = MAX_KEPT_ROWS.min(MAX_ROWS_IN_ALL / pair.pairs.max(1));
        Ok(FileSink { sheets: sheets.collect(), columns: Vec::new(), kept: Vec::new(), max_kept })
    }
}

impl Sink for FileSink {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        self.sheets.iter_mut().for_each(|sheet| sheet.open(columns));
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        if matches!(row.verdict, Verdict::Fail | Verdict::Warn) && self.kept.len() < self.max_kept {
            self.kept.push(row.clone());
        }
        let row = SheetRow { cells: row.cells, emphasis: row.emphasis };
        self.sheets.iter_mut().for_each(|sheet| sheet.row(&row));
        Ok(())
    }

    fn sheet(&self) -> Option<String> {
        Some(self.first_sheet()?.file_name()?.to_string_lossy().into_owned())
    }
}

impl FileSink {
    /// The sheets that were written elsewhere, and what could not be written there.
    pub(crate) fn written(
        columns: Vec<String>,
        kept: Vec<Row>,
        files: Vec<PathBuf>,
        failures: Vec<String>,
    ) -> FileSink {
        let failures = failures.into_iter().map(|why| Sheet::Failed(io::Error::other(why)));
        let sheets = files.into_iter().map(Sheet::Finished).chain(failures).collect();
        FileSink { sheets, columns, kept, max_kept: 0 }
    }

    fn first_sheet(&self) -> Option<&Path> {
        self.sheets.iter().find_map(|sheet| match sheet {
            Sheet::Wanted(path, ..) | Sheet::Open(path, ..) | Sheet::Finished(path) => Some(path.as_path()),
            Sheet::Failed(_) => None,
        })
    }

    /// Gives the sheets their final names; returns these, and the write errors.
    pub(crate) fn finish(&mut self) -> (Vec<PathBuf>, Vec<io::Error>) {
        let (mut written, mut failures) = (Vec::new(), Vec::new());
        for sheet in self.sheets.drain(..) {
            match sheet.finish() {
                Ok(path) => written.extend(path),
                Err(error) => failures.push(error),
            }
        }
        (written, failures)
    }
}

/// The same error, with the name of its file.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
