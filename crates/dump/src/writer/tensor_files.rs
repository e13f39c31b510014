//! The tensor files of one rank in one step.
//!
//! The output of one call is the input of the next, and weights occur again and again. So every tensor is
//! identified by its content (128 bits of XXH3, dtype and shape), and if that content already has a file, it gets a
//! link to it. A tensor that was changed without the framework's knowledge (a custom kernel, numpy over the same
//! memory) has different content and gets a separate file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{Format, encode};
use ulpscope_formats::{Error, Fault, Tensor, Value};

use super::fingerprint::Fingerprint;
use super::folder::Folder;
use super::names::file_stem;
use super::outgoing::Outgoing;

/// The folder beside `dump.json`.
pub const DATA_FOLDER: &str = "dump_tensor_data";

/// Contents remembered; further ones are written without a search for an equal one.
pub(super) const MAX_KNOWN: usize = 1 << 20;

/// Maximum number of entries with the same name that get files.
const MAX_NAMESAKES: u32 = 1000;

/// The maximum of a file beside its elements: heads, and names of `MAX_STEM` bytes a dozen times.
const MAX_FRAME: u64 = 8 << 10;

/// Bytes of the elements in a file. Overlapping or scattered elements may be written with their strides or packed.
fn elements_size(tensor: &Tensor) -> usize {
    tensor.view().packed_size().min(tensor.storage().len())
}

/// The tensor files of a rank.
#[derive(Debug)]
pub(super) struct TensorFiles {
    path: PathBuf,
    /// Made with the first file.
    folder: Option<Folder>,
    format: Format,
    known: HashMap<Fingerprint, Box<str>>,
    written: u64,
    /// A buffer for parts of files, reused.
    waiting: Vec<u8>,
}

impl TensorFiles {
    /// Maximum bytes of the file of a tensor.
    pub(super) fn most_added(tensor: &Tensor) -> u64 {
        elements_size(tensor) as u64 + MAX_FRAME
    }

    /// Files of one format in `dump_tensor_data/` of a rank's folder. The first file creates that folder.
    pub(super) fn new(rank_folder: &Path, format: Format) -> TensorFiles {
        TensorFiles {
            path: rank_folder.join(DATA_FOLDER),
            folder: None,
            format,
            known: HashMap::new(),
            written: 0,
            waiting: Vec::new(),
        }
    }

    /// Sets the new folder of the rank.
    pub(super) fn moved_to(&mut self, rank_folder: &Path) {
        self.path = rank_folder.join(DATA_FOLDER);
        if let Some(folder) = &mut self.folder {
            folder.moved_to(&self.path);
        }
    }

    /// Bytes of files written so far; links count as zero.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// If there is a file with this fingerprint, gives it a further name and returns the name: `stem` and
    /// the format's suffix, as far as it is a valid file name.
    pub(super) fn link(&mut self, stem: &str, fingerprint: &Fingerprint) -> Option<String> {
        let (folder, twin) = (self.folder.as_ref()?, self.known.get(fingerprint)?);
        // If the file system has no links, or no more for this file, the file is written again.
        self.under_free_name(&file_stem(stem), |name| folder.link(twin, name).map_err(Error::whole)).ok()
    }

    /// Writes a tensor's file and returns its name, which is chosen as for a link.
    pub(super) fn save(
        &mut self,
        stem: &str,
        fingerprint: Fingerprint,
        tensor: &Tensor,
    ) -> Result<String, Error> {
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => Folder::make(&self.path).map_err(|error| Error::whole(error).in_file(&self.path))?,
        };
        let stem = file_stem(stem);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut size = 0;
        let name = self.under_free_name(&stem, |name| {
            let file = folder.create(name).map_err(Error::whole)?;
            size = write(&file, self.format, &stem, tensor, &mut waiting).inspect_err(|_| {
                // Nothing refers to a partial file; the reason of the failure is what matters.
                let _: io::Result<()> = fs::remove_file(self.path.join(name));
            })?;
            Ok(())
        });
        self.folder = Some(folder);
        self.waiting = waiting;
        let name = name?;
        self.written += size;
        if self.known.len() < MAX_KNOWN {
            self.known.insert(fingerprint, name.as_str().into());
        }
        Ok(name)
    }

    /// Creates a file under the first free name.
    fn under_free_name(
        &self,
        stem: &str,
        mut make: impl FnMut(&str) -> Result<(), Error>,
    ) -> Result<String, Error> {
        let mut name = [stem, ".", self.format.extension()].concat();
        for again in 2.. {
            match make(&name) {
                Ok(()) => break,
                // Another entry has this name, like keys 1 and "1" of a dictionary.
                Err(error) if is_taken(&error) && again <= MAX_NAMESAKES => {
                    name = format!("{stem}~{again}.{}", self.format.extension());
                }
                Err(error) => return Err(error.in_file(&self.path.join(&name))),
            }
        }
        Ok(name)
    }
}

/// Writes a file and returns its size.
fn write(
    file: &File,
    format: Format,
    stem: &str,
    tensor: &Tensor,
    waiting: &mut Vec<u8>,
) -> Result<u64, Error> {
    let mut out = Outgoing::new(file, waiting, 0, elements_size(tensor)).map_err(Error::whole)?;
    encode(format, &Value::Tensor(tensor.clone()), stem, &mut out)?;
    out.finish().map_err(Error::whole)
}

fn is_taken(error: &Error) -> bool {
    matches!(&error.fault, Fault::Io(cause) if cause.kind() == io::ErrorKind::AlreadyExists)
}
