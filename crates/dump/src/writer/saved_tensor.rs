//! Where the elements of a recorded tensor are.

use ulpscope_tensor::DType;

/// The place of a tensor's elements in the folder of tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTensor {
    /// The name of the file.
    pub file: String,
    /// The part of the file; nothing if the file holds this tensor alone.
    pub part: Option<SavedPart>,
}

/// A part of a file that holds several tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedPart {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The name of the tensor in the file, if it is not that of the entry: an equal tensor was saved before.
    pub name: Option<String>,
    /// The dtype of the elements, if it is not the recorded one.
    pub dtype: Option<DType>,
    /// The shape of the elements, if it is not the recorded one: a dimension of 1 stands for all repetitions.
    pub shape: Option<Vec<usize>>,
}

impl SavedTensor {
    /// A separate file.
    pub fn alone(file: String) -> SavedTensor {
        SavedTensor { file, part: None }
    }

    /// The same place, if the recorded dtype is `printed` and the elements have another.
    pub fn recorded_as(mut self, printed: Option<&str>, elements: DType) -> SavedTensor {
        if let (Some(part), Some(printed)) = (&mut self.part, printed)
            && printed != elements.printed_name()
        {
            part.dtype = Some(elements);
        }
        self
    }
}
