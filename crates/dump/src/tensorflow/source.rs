//! The entries of an operator: read from its files on request.

use std::path::{Path, PathBuf};

use ulpscope_formats::{Access, Bytes, Error, Tensor, npy, tensorflow};

use super::TfFile;
use crate::entry::{Content, Data, Entry, Role, TensorEntry};
use crate::key::name_of;
use crate::links;
use crate::problems::Problems;
use crate::rank::{Index, Source};

pub(super) struct TfSource {
    pub(super) folder: PathBuf,
    /// The files of each call together, in the order of the calls.
    pub(super) files: Vec<TfFile>,
}

impl TfSource {
    fn entry(&self, call: &str, file: &TfFile) -> Entry {
        let content = match self.read(file) {
            // The handle of a variable says nothing of its value.
            Ok(None) => Content::None,
            Ok(Some(tensor)) => {
                let shape = tensor.shape().iter().map(|&dim| dim as u64).collect();
                let bare = TensorEntry::bare(format!("torch.{}", tensor.dtype()), Some(shape));
                // An array is named by its own path; the elements of an event are within it.
                let data = match file.path.to_str() {
                    Some(path) if file.is_array => Data::File(path.to_owned()),
                    _ => Data::Tensor(tensor),
                };
                Content::Tensor(Box::new(TensorEntry { data, ..bare }))
            }
            Err(error) => {
                let bare = TensorEntry::bare(String::new(), None);
                // An array is read again, and refused again, when its elements are requested.
                let data = match file.path.to_str() {
                    Some(path) if file.is_array => Data::File(path.to_owned()),
                    _ => Data::Refused(error.to_string()),
                };
                Content::Tensor(Box::new(TensorEntry { data, ..bare }))
            }
        };
        Entry {
            name: format!("{call}.{}.{}", Role::Output.word(), file.output),
            role: Role::Output,
            path: file.output.to_string(),
            content,
        }
    }

    fn read(&self, file: &TfFile) -> Result<Option<Tensor>, Error> {
        links::refuse_below(&self.folder, &file.path)?;
        let bytes = Bytes::map(&self.folder.join(&file.path), Access::ReadOnly)?;
        // The name of the file is already known to whoever asks.
        bytes.reading(|| {
            if file.is_array {
                return npy::read(&bytes).map(Some);
            }
            tensorflow::read_debug_tensor(&bytes).map(|event| event.tensor)
        })
    }
}

impl Source for TfSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let call = &index.calls[call];
        let name = name_of(index.names.text(call.base), call);
        let files = self.files.get(call.place.start as usize..call.place.end as usize).unwrap_or_default();
        Ok(files.iter().map(|file| self.entry(&name, file)).collect())
    }

    fn stack(&self, _index: &Index, _call: usize) -> Option<Vec<String>> {
        None
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        false
    }

    fn parent(&self, _index: &Index, _call: usize) -> Option<String> {
        None
    }

    fn data_folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    fn entry_file(&self, index: &Index, call: usize, entry: usize) -> Option<PathBuf> {
        let at = usize::try_from(index.calls[call].place.start).ok()?.checked_add(entry)?;
        self.files.get(at).map(|file| self.folder.join(&file.path))
    }

    fn late_problems(&self) -> Problems {
        Problems::default()
    }
}
