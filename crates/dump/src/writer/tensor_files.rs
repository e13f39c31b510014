//! The tensor files of one rank in one step.
//!
//! The output of one call is the input of the next, and weights occur again and again. So every tensor is
//! identified by its content (128 bits of XXH3, dtype and shape), and if that content already has a file, it gets a
//! link to it. A tensor that was changed without the framework's knowledge (a custom kernel, numpy over the same
//! memory) has different content and gets a separate file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{Format, encode};
use ulpscope_formats::{Error, Fault, Tensor, Value};
use ulpscope_kernels::{Digest, DigestKind, digest, read_once};
use ulpscope_tensor::{DType, View};

use super::folder::Folder;
use super::outgoing::Outgoing;

/// The folder beside `dump.json`.
pub const DATA_FOLDER: &str = "dump_tensor_data";

/// Contents remembered; further ones are written without a search for an equal one.
const MAX_KNOWN: usize = 1 << 20;

/// Bytes of a file's name before its suffix; file systems allow 255 in total.
const MAX_STEM: usize = 200;

/// Maximum number of entries with the same name that get files.
const MAX_NAMESAKES: u32 = 1000;

/// The maximum of a file beside its elements: heads, and names of `MAX_STEM` bytes a dozen times.
const MAX_FRAME: u64 = 8 << 10;

/// Maximum bytes of the file of a tensor.
pub fn file_size(tensor: &Tensor) -> u64 {
    elements_size(tensor) as u64 + MAX_FRAME
}

/// Bytes of the elements in a file. Overlapping or scattered elements may be written with their strides or packed.
fn elements_size(tensor: &Tensor) -> usize {
    tensor.view().packed_size().min(tensor.storage().len())
}

/// The tensor files of a rank.
#[derive(Debug)]
pub struct TensorFiles {
    path: PathBuf,
    /// Made with the first file.
    folder: Option<Folder>,
    format: Format,
    known: HashMap<Fingerprint, Box<str>>,
    written: u64,
    /// A buffer for parts of files, reused.
    waiting: Vec<u8>,
}

/// The identity of a tensor's content.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    digest: Digest,
    dtype: DType,
    shape: Vec<usize>,
    /// The shape that the digest covers, if each of its elements is repeated many times.
    once: Option<Vec<usize>>,
}

impl TensorFiles {
    /// Files of one format in `dump_tensor_data/` of a rank's folder. The first file creates that folder.
    pub fn new(rank_folder: &Path, format: Format) -> TensorFiles {
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
    pub fn moved_to(&mut self, rank_folder: &Path) {
        self.path = rank_folder.join(DATA_FOLDER);
        if let Some(folder) = &mut self.folder {
            folder.moved_to(&self.path);
        }
    }

    /// Bytes of files written so far; links count as zero.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// If there is a file with this fingerprint, gives it a further name and returns the name: `stem` and
    /// the format's suffix, as far as it is a valid file name.
    pub fn link(&mut self, stem: &str, fingerprint: &Fingerprint) -> Option<String> {
        let (folder, twin) = (self.folder.as_ref()?, self.known.get(fingerprint)?);
        // If the file system has no links, or no more for this file, the file is written again.
        self.under_free_name(&file_stem(stem), |name| folder.link(twin, name).map_err(Error::whole)).ok()
    }

    /// Writes a tensor's file and returns its name, which is chosen as for a link.
    pub fn save(&mut self, stem: &str, fingerprint: Fingerprint, tensor: &Tensor) -> Result<String, Error> {
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
    let mut out = Outgoing::new(file, waiting, elements_size(tensor)).map_err(Error::whole)?;
    encode(format, &Value::Tensor(tensor.clone()), stem, &mut out)?;
    out.finish().map_err(Error::whole)
}

impl Fingerprint {
    /// The fingerprint of a tensor. Elements that it repeats in large numbers are read once: such a tensor does not
    /// share a file with a copy of itself.
    pub fn of(view: &View<'_>) -> Fingerprint {
        let once = read_once(view).map(|(once, _)| once);
        let digest = digest(once.as_ref().unwrap_or(view), DigestKind::Xxh3);
        let once = once.map(|once| once.shape().to_vec());
        Fingerprint { digest, dtype: view.dtype(), shape: view.shape().to_vec(), once }
    }
}

/// A valid file name: names come from programs and may contain anything. Characters that would leave the folder or
/// are invalid become `_`; a name that is too long ends with a digest of the whole.
fn file_stem(stem: &str) -> Cow<'_, str> {
    let is_unfit = |character: char| character.is_control() || matches!(character, '/' | '\\' | ':');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if stem.len() <= MAX_STEM && stem.bytes().all(is_plain) && stem.bytes().any(|byte| byte != b'.') {
        return Cow::Borrowed(stem);
    }
    let fit: String =
        stem.chars().map(|character| if is_unfit(character) { '_' } else { character }).collect();
    let fit = if fit.trim_matches('.').is_empty() { format!("_{fit}") } else { fit };
    if fit.len() <= MAX_STEM {
        return Cow::Owned(fit);
    }
    let mut end = MAX_STEM - 9;
    while !fit.is_char_boundary(end) {
        end -= 1;
    }
    let view = View::contiguous(DType::U8, vec![stem.len()], stem.as_bytes());
    let whole = view.map(|view| digest(&view, DigestKind::Crc32).to_string()).unwrap_or_default();
    Cow::Owned(format!("{}~{whole}", &fit[..end]))
}

fn is_taken(error: &Error) -> bool {
    matches!(&error.fault, Fault::Io(cause) if cause.kind() == io::ErrorKind::AlreadyExists)
}
