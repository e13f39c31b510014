//! Result sheets in a folder: one name per pair of ranks; a sheet is complete or absent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_compare::{Outputs, RankPair, Row, Sink, Verdict};
use ulpscope_dump::AFTER_LAST_STEP;
use ulpscope_formats::file::Unfinished;
use ulpscope_report::Row as SheetRow;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::xlsx::XlsxWriter;

use crate::style_name::StyleName;
use crate::timestamp;

/// Differing rows kept for `result.json`; the sheet has all of them.
const MAX_KEPT_ROWS: usize = 1000;

/// The sheets of a comparison.
#[derive(Debug)]
pub struct FileOutputs {
    /// Where they are written; `None`: nowhere.
    folder: Option<PathBuf>,
    timestamp: String,
    style: StyleName,
    csv: bool,
    xlsx: bool,
}

/// The unfinished sheets of one pair of ranks. A sheet that cannot be written does not end the comparison: the error is
/// reported when it is finished.
pub struct FileSink {
    csv: Sheet<CsvWriter<File>>,
    xlsx: Sheet<XlsxWriter<File>>,
    /// The headings.
    pub(crate) columns: Vec<String>,
    /// The first differing rows.
    pub(crate) kept: Vec<Row>,
}

/// One sheet.
enum Sheet<W> {
    /// Not requested, or finished.
    None,
    /// Requested; the headings are not known yet.
    Wanted(PathBuf),
    /// Being written.
    Open(PathBuf, Unfinished, W),
    /// Could not be written.
    Failed(io::Error),
}

impl<W> Sheet<W> {
    fn at(path: Option<PathBuf>) -> Sheet<W> {
        path.map_or(Sheet::None, Sheet::Wanted)
    }

    fn open(&mut self, writer: impl FnOnce(File) -> io::Result<W>) {
        let Sheet::Wanted(path) = self else { return };
        let path = std::mem::take(path);
        let create = || {
            let unfinished = Unfinished::create(&path)?;
            let writer = writer(unfinished.file().try_clone()?)?;
            Ok((unfinished, writer))
        };
        *self = match create() {
            Ok((unfinished, writer)) => Sheet::Open(path, unfinished, writer),
            Err(error) => Sheet::Failed(named(&path, error)),
        };
    }

    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if let Sheet::Open(path, _, writer) = self
            && let Err(error) = write(writer)
        {
            *self = Sheet::Failed(named(path, error));
        }
    }

    /// Gives the sheet its final name, and returns it.
    fn finish(&mut self, finish: impl FnOnce(W) -> io::Result<()>) -> io::Result<Option<PathBuf>> {
        match std::mem::replace(self, Sheet::None) {
            Sheet::None | Sheet::Wanted(_) => Ok(None),
            Sheet::Failed(error) => Err(error),
            Sheet::Open(path, unfinished, writer) => {
                let finished = finish(writer).and_then(|()| unfinished.finish_beside());
                finished.map(Some).map_err(|error| named(&path, error))
            }
        }
    }
}

impl FileOutputs {
    /// Sheets named after the current time. Without a folder, none.
    pub fn new(folder: Option<PathBuf>, style: StyleName, csv: bool, xlsx: bool) -> FileOutputs {
        let timestamp = timestamp::now(folder.as_deref());
        FileOutputs { folder, timestamp, style, csv, xlsx }
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

    /// The path of another file of this comparison.
    pub(crate) fn path(&self, folder: &Path, name: &str, suffix: &str) -> PathBuf {
        folder.join(format!("{name}_{}.{suffix}", self.timestamp))
    }
}

impl Outputs for FileOutputs {
    type Sink = FileSink;

    fn open(&self, pair: &RankPair<'_>) -> io::Result<FileSink> {
        let stem = self.stem(pair);
        let sheet = |suffix: &str| self.folder.as_ref().map(|folder| folder.join(format!("{stem}.{suffix}")));
        Ok(FileSink {
            csv: Sheet::at(sheet("csv").filter(|_| self.csv)),
            xlsx: Sheet::at(sheet("xlsx").filter(|_| self.xlsx)),
            columns: Vec::new(),
            kept: Vec::new(),
        })
    }
}

impl Sink for FileSink {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        self.csv.open(|file| CsvWriter::new(file, columns));
        self.xlsx.open(|file| XlsxWriter::new(file, columns));
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        if matches!(row.verdict, Verdict::Fail | Verdict::Warn) && self.kept.len() < MAX_KEPT_ROWS {
            self.kept.push(row.clone());
        }
        let row = SheetRow { cells: row.cells, emphasis: row.emphasis };
        self.csv.write(|csv| csv.row(&row));
        self.xlsx.write(|xlsx| xlsx.row(&row));
        Ok(())
    }
}

impl FileSink {
    /// Gives the sheets their final names; returns these, and the write errors.
    pub(crate) fn finish(&mut self) -> (Vec<PathBuf>, Vec<io::Error>) {
        let finished = [
            self.csv.finish(|writer| writer.finish().map(drop)),
            self.xlsx.finish(|writer| writer.finish().map(drop)),
        ];
        let (mut written, mut failures) = (Vec::new(), Vec::new());
        for sheet in finished {
            match sheet {
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
