//! The files of a comparison: renames finished sheets, and writes `result.json`, the advice and the analysis.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use ulpscope_formats::Error;
use ulpscope_formats::file::{self, Unfinished};
use ulpscope_report::{escape, json};

use crate::files::{FileOutputs, FileSink};
use crate::result_json::{RankExtras, document};
use crate::{Compared, advisor, diff_analyze, rank_name};

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// The content of `result.json`, even if it was not written.
    pub document: Value,
    /// The files, in the order they were written.
    pub files: Vec<PathBuf>,
    /// What could not be written, and why.
    pub failures: Vec<String>,
}

/// Finishes the sheets and writes the other files. A file that cannot be written does not stop the others.
pub fn write(compared: &mut Compared<FileSink>, outputs: &FileOutputs, diff_analyze: bool) -> Written {
    let mut failures = Vec::new();
    let sheets = finish_sheets(compared, &mut failures);
    let document = document(compared, |number, sink: &FileSink| RankExtras {
        columns: &sink.columns,
        rows: &sink.kept,
        files: &sheets[number],
    });
    let mut written = Written { document, files: sheets.into_iter().flatten().collect(), failures };
    if let Some(folder) = outputs.folder() {
        written.documents(compared, outputs, folder, diff_analyze);
    }
    written
}

impl Written {
    fn documents(
        &mut self,
        compared: &Compared<FileSink>,
        outputs: &FileOutputs,
        folder: &Path,
        diff_analyze: bool,
    ) {
        let several = compared.ranks.len() > 1;
        for rank in &compared.ranks {
            let Ok((outcome, _)) = &rank.result else { continue };
            if let Some(text) = advisor::text(compared, rank, outcome) {
                let label = rank_name(rank, several).replace(' ', "_");
                let name = if label.is_empty() { "advisor".to_owned() } else { format!("advisor_{label}") };
                self.add(outputs, outputs.path(folder, &name, "txt"), &escape::lines(&text));
            }
        }
        if diff_analyze {
            let analysis = json::document(&diff_analyze::document(compared));
            self.add(outputs, outputs.path(folder, "diff_analyze", "json"), &analysis);
        }
        // Always written: `explain` needs it.
        let path = folder.join("result.json");
        match write_text(&path, &json::document(&self.document)) {
            Ok(()) => self.files.push(path),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    fn add(&mut self, outputs: &FileOutputs, path: PathBuf, text: &str) {
        let written = match outputs.is_final() {
            true => write_text(&path, text).map(|()| path.clone()).map_err(io::Error::other),
            false => write_beside(&path, text),
        };
        match written {
            Ok(path) => self.files.push(path),
            Err(error) => self.failures.push(format!("{}: {error}", path.display())),
        }
    }
}

/// Gives the sheets of every rank their final names; write errors are failures.
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

/// Writes a file under a free name, and returns that name.
fn write_beside(path: &Path, text: &str) -> io::Result<PathBuf> {
    let unfinished = Unfinished::create(path)?;
    unfinished.file().write_all(text.as_bytes())?;
    unfinished.finish_beside()
}

fn write_text(path: &Path, text: &str) -> Result<(), Error> {
    file::write_with(path, |out| out.write_all(text.as_bytes()).map_err(Error::whole))
}
