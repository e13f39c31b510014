//! Tensor files as the shells show them: a line of statistics, and a text file of the values.

use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::{Access, Error, Tensor, file};
use ulpscope_kernels::Stats;
use ulpscope_tensor::{DType, Scalar};

use crate::cancel::Cancel;
use crate::numpy_text::{self, Digits};

/// A tensor of a file.
pub(crate) struct NamedTensor {
    pub(crate) path: PathBuf,
    /// Its name in the file; empty if it is the only one.
    pub(crate) part: String,
    pub(crate) tensor: Tensor,
}

impl NamedTensor {
    /// Every tensor of a file, and what of it cannot be read.
    pub(crate) fn read(path: &Path) -> Result<(Vec<NamedTensor>, Vec<String>), Error> {
        let opened = file::read(path, Access::ReadOnly)?;
        let tensors = opened.value.tensors().into_iter();
        let tensors = tensors
            .map(|(part, tensor)| NamedTensor { path: path.to_owned(), part, tensor: tensor.clone() })
            .collect();
        let unread = opened.value.unread().into_iter().chain(opened.value.opaque());
        let unread = unread.map(|(part, reason)| format!("{}:{part}: {reason}", path.display())).collect();
        Ok((tensors, unread))
    }

    /// The only tensor of a file.
    pub(crate) fn read_one(path: &Path) -> Result<NamedTensor, String> {
        let (mut tensors, unread) = NamedTensor::read(path).map_err(|error| error.to_string())?;
        match (tensors.len(), unread.first()) {
            (1, _) => Ok(tensors.remove(0)),
            (0, Some(reason)) => Err(reason.clone()),
            (count, _) => Err(format!(
                "{}: expected one tensor, found {count}; dc makes a file of each",
                path.display()
            )),
        }
    }

    /// `FILE` or `FILE:PART`.
    pub(crate) fn label(&self) -> String {
        let path = self.path.display();
        if self.part.is_empty() { path.to_string() } else { format!("{path}:{}", self.part) }
    }

    /// The text file of its values: the full name of the file and `.txt`.
    pub(crate) fn text_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        if !self.part.is_empty() {
            let part: String = self
                .part
                .chars()
                .map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' })
                .collect();
            name.push(format!(".{part}"));
        }
        name.push(".txt");
        name.into()
    }

    /// Writes the text file, unless it is there and no older than the tensor's file.
    pub(crate) fn save_text(&self, cancel: &Cancel) -> Result<PathBuf, Error> {
        let path = self.text_path();
        let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        if modified(&path).is_some_and(|text| modified(&self.path).is_some_and(|tensor| text >= tensor)) {
            return Ok(path);
        }
        file::write_with(&path, |out| {
            let go_on = || cancel.go_on();
            let write = || numpy_text::save_text(&self.tensor.view(), &go_on, out).map_err(Error::whole);
            self.tensor.storage().reading(write)
        })?;
        Ok(path)
    }
}

/// The largest, the smallest and the mean, as NumPy prints them for a dtype.
pub(crate) fn extrema(dtype: DType, stats: &Stats) -> [String; 3] {
    let digits = Digits::of(dtype);
    let scalar =
        |value: Option<Scalar>| value.map_or_else(|| "None".to_owned(), |value| digits.scalar(value));
    let mean = stats.mean.map_or_else(|| "None".to_owned(), |mean| digits.float(mean));
    [scalar(stats.max), scalar(stats.min), mean]
}

/// `[Shape: (2, 3)] [Dtype: float32] [Max: 2.0] [Min: 0.0] [Mean: 1.0]`.
pub(crate) fn spec(tensor: &Tensor, stats: &Stats) -> String {
    let [max, min, mean] = extrema(tensor.dtype(), stats);
    let shape = numpy_text::shape(tensor.shape());
    format!("[Shape: {shape}] [Dtype: {}] [Max: {max}] [Min: {min}] [Mean: {mean}]", tensor.dtype())
}
