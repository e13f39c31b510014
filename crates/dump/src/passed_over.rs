//! What lies in a dump's folders and is not read: listed, and if it could hold tensors of the run, a problem.
//!
//! A file is read if its name or its first bytes are those of a format of tensors. Of the others, text is a note: a log, a
//! table, a document of some tool. Anything else could be data, and so could what a link leads to.

use std::fs;
use std::io::Read;
use std::path::Path;

use ulpscope_formats::file::{Format, open_regular};
use ulpscope_formats::{Access, Bytes, Error};

use crate::problems::Problems;

/// Names shown of a long list.
const SHOWN: usize = 8;

/// Bytes by which text is told from data.
const LOOKED_AT: usize = 1024;

/// Documents that are no text; a `.model` is the vocabulary of a tokenizer.
const DOCUMENTS: [&str; 9] = ["xlsx", "pdf", "png", "jpg", "jpeg", "svg", "gif", "pyc", "model"];

/// Digits of the time in microseconds that ends the name of an ACL dump file.
pub(crate) const ACL_TIME_DIGITS: usize = 16;

/// Files and links that are not read.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    /// Those that could hold tensors.
    data: Listed,
    /// Documents.
    documents: Listed,
}

#[derive(Debug, Default)]
struct Listed {
    first: Vec<String>,
    count: u64,
}

impl PassedOver {
    /// Takes in a file that is not read.
    pub(crate) fn file(&mut self, path: &Path) {
        if is_document(path) { self.documents.add(path) } else { self.data.add(path) }
    }

    /// Takes in something that is not read, and could hold tensors.
    pub(crate) fn data(&mut self, path: &Path) {
        self.data.add(path);
    }

    /// Takes in a link, unless it leads to a file of the same folder, which is read under its own name.
    pub(crate) fn link(&mut self, path: &Path) {
        let folder = |path: &Path| path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let lands = fs::canonicalize(path).ok();
        let is_beside =
            lands.is_some_and(|lands| lands.is_file() && folder(path).as_deref() == lands.parent());
        if !is_beside {
            self.data.add(path);
        }
    }

    /// Takes in those of another folder.
    pub(crate) fn extend(&mut self, more: PassedOver) {
        self.data.extend(more.data);
        self.documents.extend(more.documents);
    }

    /// Says so, by paths below the dump.
    pub(crate) fn report(self, dump: &Path, problems: &mut Problems, notes: &mut Vec<String>) {
        let place = dump.display();
        if let Some(words) = self.data.words(dump) {
            problems.note(format!(
                "{place}: not read, although it could hold tensors of the run: {words}; name it on its own, convert it, or \
                 move it out of the folder"
            ));
        }
        if let Some(words) = self.documents.words(dump) {
            notes.push(format!("{place}: not compared, as it holds no tensors: {words}"));
        }
    }
}

impl Listed {
    fn add(&mut self, path: &Path) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(path.to_string_lossy().into_owned());
        }
    }

    fn extend(&mut self, more: Listed) {
        self.count += more.count;
        self.first.extend(more.first);
        self.first.truncate(SHOWN);
    }

    fn words(&self, dump: &Path) -> Option<String> {
        let below = |path: &String| {
            let path = Path::new(path);
            path.strip_prefix(dump).unwrap_or(path).display().to_string()
        };
        let mut words: Vec<String> = self.first.iter().map(below).collect();
        let more = self.count - self.first.len() as u64;
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        (!words.is_empty()).then(|| format!("{} ({})", words.join(", "), counted(self.count)))
    }
}

fn counted(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// Whether a file is one that people read. The statistics of an ACL dump are a table, too, but data of the run.
fn is_document(path: &Path) -> bool {
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
        return true;
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    if extension.as_deref().is_some_and(|extension| DOCUMENTS.contains(&extension)) {
        return true;
    }
    if extension.as_deref() == Some("csv")
        && path.file_stem().is_some_and(|stem| ends_in_time(Path::new(stem)))
    {
        return false;
    }
    let mut beginning = [0; LOOKED_AT];
    let read = open_regular(path).and_then(|mut file| file.read(&mut beginning).map_err(Error::whole));
    read.is_ok_and(|length| is_text(&beginning[..length]))
}

/// Whether bytes are text, the last character of which may be cut.
fn is_text(bytes: &[u8]) -> bool {
    let is_valid = std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_valid && !bytes.contains(&0)
}

fn ends_in_time(name: &Path) -> bool {
    let time = name.extension().and_then(|time| time.to_str()).unwrap_or_default();
    time.len() == ACL_TIME_DIGITS && time.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the first bytes of a file are those of a format of tensors, whatever it is called.
pub(crate) fn holds_tensors(path: &Path) -> bool {
    let Ok(bytes) = Bytes::map(path, Access::ReadOnly) else { return false };
    let format = Format::detect(path, &bytes);
    format.is_ok_and(|format| !matches!(format, Format::Msprobe | Format::PklLines))
}
