//! The lines of torch_npu.hooks: one text file for all steps, with a running number in every line.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use ulpscope_formats::records::{PklStyle, append_pkl_lines};
use ulpscope_formats::{Bytes, Error};

use super::FinishedStep;
use super::steps_in_one_place::StepsInOnePlace;
use super::target::Target;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// A text file to which every step adds its lines.
#[derive(Debug)]
pub struct LinesFile(StepsInOnePlace<Position>);

/// A position in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    bytes: u64,
    lines: u64,
}

impl LinesFile {
    pub(super) fn new(target: Target) -> LinesFile {
        LinesFile(StepsInOnePlace::new(target))
    }

    /// Adds the lines of a step, or replaces them if the step has lines already. A file of an earlier run is replaced.
    pub(super) fn write(&self, step: &FinishedStep<'_>) -> Result<(), Error> {
        step.write_ledger()?;
        let dump = step.dump()?;
        self.0
            .write(step.folder, |path, start| append(path, start, &dump).map_err(|error| error.in_file(path)))
    }
}

/// Writes lines from a position on; what was there is gone. If that fails, the file ends at the position.
fn append(path: &Path, start: Position, dump: &Bytes) -> Result<Position, Error> {
    let file = open(path).map_err(Error::whole)?;
    let added = add(&file, start, dump);
    if added.is_err() {
        // A file that ends in the middle of a step looks like a whole one.
        let _ = file.set_len(start.bytes);
    }
    added
}

fn add(mut file: &File, start: Position, dump: &Bytes) -> Result<Position, Error> {
    file.set_len(start.bytes).and_then(|()| file.seek(SeekFrom::Start(start.bytes))).map_err(Error::whole)?;
    let mut out = BufWriter::with_capacity(BUFFER, file);
    let report = append_pkl_lines(dump, None, PklStyle::Hooks, start.lines, &mut out)?;
    out.flush().map_err(Error::whole)?;
    drop(out);
    let bytes = file.stream_position().map_err(Error::whole)?;
    Ok(Position { bytes, lines: start.lines + report.entries })
}

/// Only the user may read the file, as in the tool.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
