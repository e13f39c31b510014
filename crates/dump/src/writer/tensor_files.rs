//! The tensor files of one rank in one step.
//!
//! The output of one call is the input of the next, and weights come again and again. So every tensor is known by its
//! content (128 bits of XXH3, dtype and shape), and one whose content has a file already gets a link to it: a tensor
//! that was changed behind the framework's back (a kernel of one's own, numpy over the same memory) has another
//! content and gets a file of its own.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{Format, encode};
use ulpscope_formats::{Error, Tensor, Value};
use ulpscope_kernels::{Digest, DigestKind, digest};
use ulpscope_tensor::DType;

/// The folder beside `dump.json`.
pub(crate) const DATA_FOLDER: &str = "dump_tensor_data";

/// Contents remembered; further ones are written without looking for a twin.
const MAX_KNOWN: usize = 1 << 20;

/// Small files go out in one write, large payloads past the buffer.
const BUFFER: usize = 32 << 10;

/// Where tensors of a rank go.
#[derive(Debug)]
pub struct TensorFiles {
    folder: PathBuf,
    format: Format,
    suffix: &'static str,
    known: HashMap<Content, Box<str>>,
    written: u64,
    made: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Content {
    digest: Digest,
    dtype: DType,
    shape: Vec<usize>,
}

impl TensorFiles {
    /// Files of one format in `dump_tensor_data/` of a rank's folder, which is made with the first of them.
    pub fn new(rank_folder: &Path, format: Format) -> TensorFiles {
        let suffix = match format {
            Format::Npy => "npy",
            Format::Safetensors => "safetensors",
            _ => "pt",
        };
        let folder = rank_folder.join(DATA_FOLDER);
        TensorFiles { folder, format, suffix, known: HashMap::new(), written: 0, made: false }
    }

    /// Says that the folder of the rank is another now.
    pub fn moved_to(&mut self, rank_folder: &Path) {
        self.folder = rank_folder.join(DATA_FOLDER);
    }

    /// Bytes of tensors written so far; links cost none.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Makes a tensor's file and tells its name: `stem` and the format's suffix.
    pub fn save(&mut self, stem: &str, tensor: &Tensor) -> Result<String, Error> {
        let name = format!("{stem}.{}", self.suffix);
        let path = self.folder.join(&name);
        self.save_at(&path, &name, stem, tensor).map_err(|error| error.in_file(&path))?;
        Ok(name)
    }

    fn save_at(&mut self, path: &Path, name: &str, stem: &str, tensor: &Tensor) -> Result<(), Error> {
        if !self.made {
            fs::create_dir_all(&self.folder).map_err(Error::whole)?;
            self.made = true;
        }
        let view = tensor.view();
        let content = Content {
            digest: digest(&view, DigestKind::Xxh3),
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
        };
        if let Some(twin) = self.known.get(&content)
            && fs::hard_link(self.folder.join(twin.as_ref()), path).is_ok()
        {
            return Ok(());
        }
        // Written anew where the file system has no links, or no more of them for this file.
        let file = OpenOptions::new().write(true).create_new(true).open(path).map_err(Error::whole)?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let written: Result<(), Error> = encode(self.format, &Value::Tensor(tensor.clone()), stem, &mut out)
            .and_then(|()| out.flush().map_err(Error::whole));
        if let Err(error) = written {
            // A torn file is named nowhere; what matters is why it is torn.
            drop(out);
            let _: io::Result<()> = fs::remove_file(path);
            return Err(error);
        }
        self.written += view.packed_size() as u64;
        if self.known.len() < MAX_KNOWN {
            self.known.insert(content, name.into());
        }
        Ok(())
    }
}
