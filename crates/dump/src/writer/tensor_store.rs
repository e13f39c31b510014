//! The saved tensors of one rank in one step, in the format that the user chose.

use std::path::Path;

use ulpscope_formats::file::Format;
use ulpscope_formats::{Error, Tensor};

use super::fingerprint::Fingerprint;
use super::pack::Pack;
use super::saved_tensor::SavedTensor;
use super::tensor_files::TensorFiles;

/// The name of [`TensorFormat::Pack`] in settings.
const PACK: &str = "pack";

/// How tensors are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorFormat {
    /// In a few large files.
    Pack,
    /// In one file each.
    Files(Format),
}

impl TensorFormat {
    /// Every format, the default first.
    pub fn all() -> impl Iterator<Item = TensorFormat> {
        std::iter::once(TensorFormat::Pack).chain(Format::recorded().map(TensorFormat::Files))
    }

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        match self {
            TensorFormat::Pack => PACK,
            TensorFormat::Files(format) => format.extension(),
        }
    }

    /// Whether a tensor that repeats its elements is saved without the repetitions.
    pub fn keeps_repetitions_short(self) -> bool {
        matches!(self, TensorFormat::Pack | TensorFormat::Files(Format::Pt))
    }
}

/// The saved tensors of a rank.
#[derive(Debug)]
pub struct TensorStore(Store);

#[derive(Debug)]
enum Store {
    Pack(Box<Pack>),
    Files(Box<TensorFiles>),
}

impl TensorStore {
    /// Tensors in `dump_tensor_data/` of a rank's folder. The first one creates that folder.
    pub fn new(rank_folder: &Path, format: TensorFormat) -> TensorStore {
        TensorStore(match format {
            TensorFormat::Pack => Store::Pack(Box::new(Pack::new(rank_folder))),
            TensorFormat::Files(format) => Store::Files(Box::new(TensorFiles::new(rank_folder, format))),
        })
    }

    /// Sets the new folder of the rank.
    pub fn moved_to(&mut self, rank_folder: &Path) {
        match &mut self.0 {
            Store::Pack(pack) => pack.moved_to(rank_folder),
            Store::Files(files) => files.moved_to(rank_folder),
        }
    }

    /// Bytes written so far; what equal tensors share counts once.
    pub fn written(&self) -> u64 {
        match &self.0 {
            Store::Pack(pack) => pack.written(),
            Store::Files(files) => files.written(),
        }
    }

    /// The bytes that a tensor adds at most.
    pub fn most_added(&self, tensor: &Tensor) -> u64 {
        match &self.0 {
            Store::Pack(pack) => pack.most_added(tensor),
            Store::Files(_) => TensorFiles::most_added(tensor),
        }
    }

    /// The place of an equal tensor, if there is one, under the name of an entry. A format with a file for each gives
    /// the file one more name.
    pub fn link(&mut self, stem: &str, fingerprint: &Fingerprint) -> Option<SavedTensor> {
        match &mut self.0 {
            Store::Pack(pack) => pack.find(stem, fingerprint),
            Store::Files(files) => files.link(stem, fingerprint).map(SavedTensor::alone),
        }
    }

    /// Saves a tensor under the name of an entry, as far as that is a valid name.
    pub fn save(
        &mut self,
        stem: &str,
        fingerprint: Fingerprint,
        tensor: &Tensor,
    ) -> Result<SavedTensor, Error> {
        match &mut self.0 {
            Store::Pack(pack) => pack.save(stem, fingerprint, tensor),
            Store::Files(files) => files.save(stem, fingerprint, tensor).map(SavedTensor::alone),
        }
    }

    /// Completes the files: other programs can open them now. More tensors may follow.
    pub fn finish(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            Store::Pack(pack) => pack.finish(),
            Store::Files(_) => Ok(()),
        }
    }
}
