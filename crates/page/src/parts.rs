//! The parts of a page, waiting in an unnamed file until they are written or requested.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use ulpscope_report::page::{ColumnBuilder, Effort, PageWriter, deflate};

/// Parts by name, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    effort: Effort,
    file: Option<BufWriter<File>>,
    end: u64,
    names: Vec<String>,
    places: HashMap<String, Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: u64,
    length: usize,
}

impl Parts {
    /// Parts that are compressed with this effort.
    pub(crate) fn with(effort: Effort) -> Parts {
        Parts { effort, ..Parts::default() }
    }

    /// Adds a part, and returns how many bytes it takes.
    pub(crate) fn add(&mut self, name: String, bytes: &[u8]) -> io::Result<usize> {
        self.add_compressed(name, &deflate(bytes, self.effort)?)
    }

    /// Adds a part that is compressed already.
    pub(crate) fn add_compressed(&mut self, name: String, part: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::with_capacity(1 << 18, tempfile::tempfile()?)),
        };
        file.write_all(part)?;
        self.places.insert(name.clone(), Place { start: self.end, length: part.len() });
        self.names.push(name);
        self.end += part.len() as u64;
        Ok(part.len())
    }

    /// Adds a JSON document.
    pub(crate) fn add_json(&mut self, name: &str, document: &Value) -> io::Result<()> {
        self.add(name.to_owned(), document.to_string().as_bytes())?;
        Ok(())
    }

    /// Adds many columns, compressed on all cores. Those without any value are left out.
    pub(crate) fn add_columns(
        &mut self,
        columns: &mut [ColumnBuilder],
        name: impl Fn(usize) -> String,
    ) -> io::Result<()> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let effort = self.effort;
        let compress = |column: &mut ColumnBuilder| {
            let is_blank = column.is_blank();
            let bytes = column.take_bytes();
            if is_blank { Ok(None) } else { deflate(&bytes, effort).map(Some) }
        };
        let share = columns.len().div_ceil(threads).max(1);
        let compressed: Vec<io::Result<Option<Vec<u8>>>> = std::thread::scope(|scope| {
            let shares = columns.chunks_mut(share);
            let workers: Vec<_> = shares
                .map(|columns| scope.spawn(|| columns.iter_mut().map(compress).collect::<Vec<_>>()))
                .collect();
            let died = || vec![Err(io::Error::other("a thread that compresses columns died"))];
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| died())).collect()
        });
        for (number, part) in compressed.into_iter().enumerate() {
            if let Some(part) = part? {
                self.add_compressed(name(number), &part)?;
            }
        }
        Ok(())
    }

    /// Adds a column. One without any value is left out.
    pub(crate) fn add_column(&mut self, name: &str, column: &mut ColumnBuilder) -> io::Result<()> {
        let is_blank = column.is_blank();
        let bytes = column.take_bytes();
        if !is_blank {
            self.add(name.to_owned(), &bytes)?;
        }
        Ok(())
    }

    /// A part that was added, compressed.
    pub(crate) fn get(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let (Some(place), Some(file)) = (self.places.get(name), &mut self.file) else { return Ok(None) };
        file.flush()?;
        let mut part = vec![0; place.length];
        file.get_ref().read_exact_at(&mut part, place.start)?;
        Ok(Some(part))
    }

    /// Ends adding.
    pub(crate) fn finish(self) -> io::Result<FinishedParts> {
        let file =
            self.file.map(|file| file.into_inner().map_err(io::IntoInnerError::into_error)).transpose()?;
        Ok(FinishedParts { file: Mutex::new(file), names: self.names, places: self.places })
    }
}

/// Parts that can be read.
#[derive(Debug)]
pub(crate) struct FinishedParts {
    file: Mutex<Option<File>>,
    names: Vec<String>,
    places: HashMap<String, Place>,
}

impl FinishedParts {
    /// A part, compressed.
    pub(crate) fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(place) = self.places.get(name) else { return Ok(None) };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_mut() else { return Ok(None) };
        let mut part = vec![0; place.length];
        file.seek(SeekFrom::Start(place.start))?;
        file.read_exact(&mut part)?;
        Ok(Some(part))
    }

    /// Writes all parts, in order.
    pub(crate) fn write_to<W: Write>(&self, page: &mut PageWriter<'_, W>) -> io::Result<()> {
        for name in &self.names {
            if let Some(part) = self.get(name)? {
                page.part(name, &part)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use ulpscope_report::page::inflate;

    #[test]
    fn parts_come_back_by_name_alone() {
        let mut parts = Parts::default();
        parts.add("manifest".to_owned(), b"{}").unwrap();
        parts.add("rows/0/1/0".to_owned(), &[7; 100_000]).unwrap();
        let parts = parts.finish().unwrap();
        assert_eq!(inflate(&parts.get("rows/0/1/0").unwrap().unwrap()).unwrap(), [7; 100_000]);
        assert_eq!(inflate(&parts.get("manifest").unwrap().unwrap()).unwrap(), b"{}");
        for name in ["", "rows", "../manifest", "/etc/passwd", "manifest/"] {
            assert!(parts.get(name).unwrap().is_none(), "{name}");
        }
    }
}
