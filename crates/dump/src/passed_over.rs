//! Files in a dump's folders that are not read. They are listed, and are a problem if they could contain tensors.
//!
//! A file is read if its name or its first bytes match a tensor format. Other text files are only a note: a log, a
//! table, a document of some tool. Anything else could be data: the records of a different dump, the target of a
//! link, a pipe. Hidden folders are skipped with a note.

use std::fs;
use std::path::Path;

use ulpscope_formats::file::Format;
use ulpscope_formats::{Access, Bytes, storage};

use crate::acl;
use crate::journal::JOURNAL_FILE;
use crate::listing::{Listing, RECORDS};
use crate::problems::Problems;

/// Maximum names shown of a long list.
const SHOWN: usize = 8;

/// Bytes that are examined to distinguish text from data.
const LOOKED_AT: usize = 1024;

/// Documents that are not text; a `.model` is the vocabulary of a tokenizer.
const DOCUMENTS: [&str; 9] = ["xlsx", "pdf", "png", "jpg", "jpeg", "svg", "gif", "pyc", "model"];

/// Files and links that are not read.
#[derive(Debug, Default)]
pub(crate) struct PassedOver {
    /// Those that could contain tensors.
    data: Listed,
    /// Documents.
    documents: Listed,
    /// Folders whose names begin with a dot.
    hidden: Listed,
}

#[derive(Debug, Default)]
struct Listed {
    first: Vec<String>,
    count: u64,
}

impl PassedOver {
    /// Adds a file that is not read.
    pub(crate) fn file(&mut self, path: &Path) {
        if is_document(path) { self.documents.add(path) } else { self.data.add(path) }
    }

    /// Adds something that is not read and could contain tensors.
    pub(crate) fn data(&mut self, path: &Path) {
        self.data.add(path);
    }

    /// Adds a link, unless its target is a file of the same folder, which is read under its own name.
    fn link(&mut self, path: &Path) {
        let folder = |path: &Path| path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let lands = fs::canonicalize(path).ok();
        let is_beside =
            lands.is_some_and(|lands| lands.is_file() && folder(path).as_deref() == lands.parent());
        if !is_beside {
            self.data.add(path);
        }
    }

    /// Adds the content of a folder that is neither a file nor searched.
    pub(crate) fn not_files(&mut self, folder: &Path, listing: &Listing) {
        listing.links.iter().for_each(|name| self.link(&folder.join(name)));
        listing.strange.iter().for_each(|name| self.data(&folder.join(name)));
        listing.hidden.iter().for_each(|name| self.hidden.add(&folder.join(name)));
    }

    /// Adds those of a different folder.
    pub(crate) fn extend(&mut self, more: PassedOver) {
        self.data.extend(more.data);
        self.documents.extend(more.documents);
        self.hidden.extend(more.hidden);
    }

    /// The same without documents: every tool writes some beside its dump.
    pub(crate) fn without_documents(self) -> PassedOver {
        PassedOver { documents: Listed::default(), ..self }
    }

    /// Reports them, with paths below the dump.
    pub(crate) fn report(self, dump: &Path, problems: &mut Problems, notes: &mut Vec<String>) {
        let place = dump.display();
        if let Some(words) = self.data.words(dump) {
            let (they, them) = if self.data.count == 1 { ("It", "it") } else { ("They", "them") };
            let text = format!(
                "{place}: not read: {words} ({}). {they} may hold tensors of the run: convert {them}, or move {them} out of \
                 the folder",
                counted(self.data.count, "file")
            );
            problems.note_several(text, self.data.count);
        }
        if let Some(words) = self.documents.words(dump) {
            let count = counted(self.documents.count, "file");
            notes.push(format!("{place}: not compared (not a tensor file): {words} ({count})"));
        }
        if let Some(words) = self.hidden.words(dump) {
            let count = counted(self.hidden.count, "folder");
            notes.push(format!("{place}: hidden folders are skipped: {words} ({count})"));
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
        (!words.is_empty()).then(|| words.join(", "))
    }
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Whether a file is meant for people. Records of a run and the statistics of an ACL dump are text, but also data.
fn is_document(path: &Path) -> bool {
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
        return true;
    }
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    if extension.as_deref().is_some_and(|extension| DOCUMENTS.contains(&extension)) {
        return true;
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if acl::is_name(name) {
        return false;
    }
    // `dump_1.json`, `DUMP.json`: copies, or the records of a different run.
    let lower = name.to_ascii_lowercase();
    if RECORDS.contains(&name)
        || name == JOURNAL_FILE
        || lower.starts_with("dump") && lower.ends_with(".json")
    {
        return false;
    }
    let mut beginning = [0; LOOKED_AT];
    let read = storage::read_beginning(path, &mut beginning);
    read.is_ok_and(|length| is_text(&beginning[..length]))
}

/// Whether bytes are text. The last character may be incomplete.
fn is_text(bytes: &[u8]) -> bool {
    let is_valid = std::str::from_utf8(bytes).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_valid && !bytes.contains(&0)
}

/// Whether the first bytes of a file match a tensor format, whatever its name.
pub(crate) fn holds_tensors(path: &Path) -> bool {
    let Ok(bytes) = Bytes::map(path, Access::ReadOnly) else { return false };
    let format = Format::detect(path, &bytes);
    format.is_ok_and(|format| format.records().is_none())
}
