//! Result sheets in a folder: a name for each pair of ranks, complete or absent.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_compare::{Outputs, RankPair, Row, Sink, Verdict};
use ulpscope_formats::file::Unfinished;
use ulpscope_report::Row as SheetRow;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::xlsx::XlsxWriter;

use super::style_name::StyleName;

/// Rows that do not agree, kept for `result.json`; the sheet has all of them.
const MAX_KEPT_ROWS: usize = 1000;

/// The sheets of a comparison.
pub(crate) struct FileOutputs {
    pub(crate) folder: PathBuf,
    pub(crate) timestamp: String,
    pub(crate) style: StyleName,
    pub(crate) csv: bool,
    pub(crate) xlsx: bool,
}

/// The sheets of one pair of ranks, not finished yet.
pub(crate) struct FileSink {
    csv_file: Option<PathBuf>,
    xlsx_file: Option<PathBuf>,
    csv: Option<(Unfinished, CsvWriter<File>)>,
    xlsx: Option<(Unfinished, XlsxWriter<File>)>,
    /// The headings.
    pub(crate) columns: Vec<String>,
    /// The first rows that do not agree.
    pub(crate) kept: Vec<Row>,
}

impl FileOutputs {
    /// `compare_result_{timestamp}`, with the ranks and the step in between where there are several.
    fn stem(&self, pair: &RankPair<'_>) -> String {
        let mut stem = "compare_result".to_owned();
        if pair.several_steps
            && let Some(step) = pair.step
        {
            stem += &format!("_step{step}");
        }
        if self.style == StyleName::Msprobe && !pair.target.name.is_empty() {
            // Its scripts look for the rank's own name.
            stem += &format!("_{}", pair.target.name);
        } else if pair.several_ranks {
            stem += &format!("_{}-{}", pair.target.name, pair.golden.name);
        }
        format!("{stem}_{}", self.timestamp)
    }

    /// The path of another file of this comparison.
    pub(crate) fn path(&self, name: &str, suffix: &str) -> PathBuf {
        self.folder.join(format!("{name}_{}.{suffix}", self.timestamp))
    }
}

impl Outputs for FileOutputs {
    type Sink = FileSink;

    fn open(&self, pair: &RankPair<'_>) -> io::Result<FileSink> {
        let stem = self.stem(pair);
        let path = |wanted: bool, suffix: &str| wanted.then(|| self.folder.join(format!("{stem}.{suffix}")));
        Ok(FileSink {
            csv_file: path(self.csv, "csv"),
            xlsx_file: path(self.xlsx, "xlsx"),
            csv: None,
            xlsx: None,
            columns: Vec::new(),
            kept: Vec::new(),
        })
    }
}

impl Sink for FileSink {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        if let Some(path) = &self.csv_file {
            let create = || {
                let unfinished = Unfinished::create(path)?;
                let writer = CsvWriter::new(unfinished.file().try_clone()?, columns)?;
                Ok((unfinished, writer))
            };
            self.csv = Some(create().map_err(|error| named(path, error))?);
        }
        if let Some(path) = &self.xlsx_file {
            let create = || {
                let unfinished = Unfinished::create(path)?;
                let writer = XlsxWriter::new(unfinished.file().try_clone()?, columns)?;
                Ok((unfinished, writer))
            };
            self.xlsx = Some(create().map_err(|error| named(path, error))?);
        }
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        if matches!(row.verdict, Verdict::Fail | Verdict::Warn) && self.kept.len() < MAX_KEPT_ROWS {
            self.kept.push(row.clone());
        }
        let row = SheetRow { cells: row.cells, emphasis: row.emphasis };
        if let (Some((_, csv)), Some(path)) = (&mut self.csv, &self.csv_file) {
            csv.row(&row).map_err(|error| named(path, error))?;
        }
        if let (Some((_, xlsx)), Some(path)) = (&mut self.xlsx, &self.xlsx_file) {
            xlsx.row(&row).map_err(|error| named(path, error))?;
        }
        Ok(())
    }
}

impl FileSink {
    /// Gives the sheets their names, and tells these.
    pub(crate) fn finish(&mut self) -> io::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        if let (Some((unfinished, writer)), Some(path)) = (self.csv.take(), self.csv_file.take()) {
            let finished = writer.finish().and_then(|_| unfinished.finish());
            finished.map_err(|error| named(&path, error))?;
            written.push(path);
        }
        if let (Some((unfinished, writer)), Some(path)) = (self.xlsx.take(), self.xlsx_file.take()) {
            let finished = writer.finish().and_then(|_| unfinished.finish());
            finished.map_err(|error| named(&path, error))?;
            written.push(path);
        }
        Ok(written)
    }
}

/// The same error, naming its file.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
