//! One tensor of a dump: its description in the header, and its bytes.

use ulpscope_tensor::{DType, element_count};

use super::data_type::DataType;
use super::format::Format;
use super::packed_elements::Packing;
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::tensor::Tensor;

/// An input or output.
#[derive(Clone, Debug)]
pub struct DumpTensor {
    /// What an element is.
    pub data_type: DataType,
    /// How the elements are laid out.
    pub format: Format,
    /// Dimensions in memory; none for a scalar.
    pub shape: Vec<u64>,
    /// Dimensions before the layout was changed, if the header has them.
    pub original_shape: Vec<u64>,
    /// The number of groups, for grouped layouts.
    pub sub_format: i32,
    /// Where the tensor was in device memory.
    pub address: u64,
    /// Offset from that address.
    pub offset: u64,
    /// Nano only: which kind of memory the address is in.
    pub address_type: i32,
    /// Outputs only: the operator that produced it before fusion.
    pub original_op: Option<OriginalOp>,
    /// Outputs only: first and last index of each dimension, for a slice.
    pub dim_range: Vec<(u64, u64)>,
    /// The bytes as dumped; padding may follow the elements.
    pub data: Bytes,
    /// Set if the file ends before the data does.
    pub cut_short: Option<CutShort>,
}

/// Data that the file does not have to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutShort {
    /// Bytes that the header promises.
    pub size: u64,
    /// Where they begin.
    pub at: usize,
    /// Bytes that are there.
    pub left: usize,
}

impl CutShort {
    pub(super) fn error(self) -> Error {
        let CutShort { size, at, left } = self;
        Error::whole(Fault::truncated(format!("{size} bytes from byte {at}"), left.to_string()))
    }
}

/// The operator that produced an output before fusion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginalOp {
    /// Its name.
    pub name: String,
    /// Which of its outputs.
    pub output_index: u32,
    /// The element type there.
    pub data_type: DataType,
    /// The layout there.
    pub format: Format,
}

/// A tensor without bytes and without a description.
impl Default for DumpTensor {
    fn default() -> DumpTensor {
        DumpTensor {
            data_type: DataType::default(),
            format: Format::default(),
            shape: Vec::new(),
            original_shape: Vec::new(),
            sub_format: 0,
            address: 0,
            offset: 0,
            address_type: 0,
            original_op: None,
            dim_range: Vec::new(),
            data: Bytes::from(Vec::new()),
            cut_short: None,
        }
    }
}

impl DumpTensor {
    /// The elements in their dumped layout; bytes after them are padding. They stay in place, except for packed types,
    /// which are unpacked. Paired, quantised and unknown types are refused; their bytes stay in [`DumpTensor::data`].
    pub fn tensor(&self) -> Result<Tensor, Error> {
        if let Some(cut) = self.cut_short {
            return Err(cut.error());
        }
        let dtype = self.data_type.elements().map_err(|what| {
            Error::whole(Fault::Unsupported(format!(
                "elements of type {} ({what}) are not read; {} raw bytes are kept",
                self.data_type,
                self.data.len()
            )))
        })?;
        // Without a type, the shape does not give a length.
        let shape =
            if self.data_type.is_undefined() { vec![self.data.len() as u64] } else { self.shape.clone() };
        fit(dtype, self.data_type.packing(), &shape, &self.data).map_err(Error::whole)
    }
}

fn fit(dtype: DType, packing: Option<Packing>, dims: &[u64], data: &Bytes) -> Result<Tensor, Fault> {
    let shape: Option<Vec<usize>> = dims.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let count = shape.as_deref().and_then(element_count);
    let size = count.and_then(|count| count.checked_mul(dtype.size()));
    let (Some(shape), Some(count), Some(needed)) = (shape, count, size) else {
        return Err(Fault::malformed("a shape that fits the address space", format!("{dims:?}")));
    };
    if let Some(packing) = packing {
        return packing.unpack(shape, count, data);
    }
    if needed > data.len() {
        return Err(Fault::truncated(
            format!("{needed} bytes of {dtype} elements of shape {shape:?}"),
            data.len().to_string(),
        ));
    }
    Ok(Tensor::contiguous(dtype, shape, data.slice(0..needed))?)
}
