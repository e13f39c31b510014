//! One argument or result of a call.

use std::sync::Arc;

use ulpscope_formats::Tensor;
use ulpscope_formats::json::Json;
use ulpscope_kernels::{SUMMARIES, Statistic};
use ulpscope_tensor::DType;

use crate::file_part::FilePart;
use crate::view::AssembledTensor;

/// The role of an entry in its call. Entries of a call are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// An argument; in a backward call, the gradient of a result (torch_npu.hooks calls that an output).
    Input,
    /// A parameter of the module.
    Parameter,
    /// A result; in a backward call, the gradient of an argument.
    Output,
    /// The gradient of a parameter.
    ParameterGrad,
    /// A tensor or variable saved under a name.
    Saved,
}

impl Role {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Input => "input",
            Role::Parameter => "parameter",
            Role::Output => "output",
            Role::ParameterGrad => "parameter_grad",
            Role::Saved => "saved",
        }
    }
}

/// An argument or result.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name that its tool gives it in results: `Functional.linear.0.forward.input.0`,
    /// `Functional_conv2d_0_forward_input.0`, `3_Functional_conv2d_forward_output`.
    pub name: String,
    /// Its role in its call.
    pub role: Role,
    /// Its path in that role: `0`, `0.2`, `weight`, `dim`; the same for the same entry of every tool.
    pub path: String,
    /// Its content.
    pub content: Content,
}

/// The content of an entry.
#[derive(Clone, Debug)]
pub enum Content {
    /// Python's `None`, or an object the tool does not describe.
    None,
    /// A tensor.
    Tensor(Box<TensorEntry>),
    /// A plain value.
    Scalar {
        /// `int`, `float`, `bool`, `str`, `slice`, `torch.Size`, `torch.dtype`, …
        kind: String,
        /// Its value.
        value: Json,
    },
    /// Anything else, as its tool describes it: process groups, memory formats, operations of point-to-point
    /// communication.
    Other(Json),
}

/// What a dump records about a tensor.
#[derive(Clone, Debug)]
pub struct TensorEntry {
    /// The class as written (`torch.Tensor`, `torch.distributed.tensor.DTensor`); empty if the tool does not record
    /// it.
    pub class: String,
    /// The dtype as written: `torch.float32`.
    pub dtype: String,
    /// The dimensions; nothing if they are not a list of integers from 0 up.
    pub shape: Option<Vec<u64>>,
    /// The strides in elements, one for each dimension, if the capture recorded them.
    pub strides: Option<Vec<u64>>,
    /// The summaries of [`ulpscope_kernels::RECORDED`] as written: numbers, booleans, words. `Null` if there is none.
    pub stats: [Json; SUMMARIES],
    /// Whether it requires a gradient, as written; `Null` if the tool does not record it.
    pub requires_grad: Json,
    /// The digest: a CRC-32 in eight hexadecimal digits, or `0x` and sixteen.
    pub digest: Option<String>,
    /// Its elements.
    pub data: Data,
    /// The entry that produced it, for an input in a dump of Ulpscope: `Functional.linear.0.forward.output.0`, an
    /// input of a call that changed it in place, `parameter:fc.weight`, `buffer:bn.running_mean`, or `outside`.
    pub source: Option<String>,
    /// Whether it belongs to a call that was recomputed for the backward pass.
    pub recompute: bool,
    /// Whether Ulpscope found uninitialised memory, and therefore recorded no numbers.
    pub is_blank: bool,
    /// Whether its call had changed it before it was recorded: it is not what the call was given.
    pub is_changed: bool,
    /// The other statistics of [`ulpscope_kernels::RECORDED`] as written, in their order. Empty if the tool does
    /// not record them, or if all elements are finite.
    pub further: Vec<(&'static Statistic, Json)>,
    /// How a distributed tensor is spread over ranks, in a dump of Ulpscope; nothing for other tensors.
    pub mesh: Option<Box<MeshPlacement>>,
}

/// How many elements of a tensor are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonFiniteCounts {
    /// How many are NaN.
    pub nan: u64,
    /// How many are infinite, of either sign.
    pub inf: u64,
}

/// Where the elements of a tensor are.
#[derive(Clone, Debug)]
pub enum Data {
    /// Nowhere: statistics only.
    None,
    /// In this file of the rank's folder of tensors; `/` separates folders.
    File(String),
    /// In a part of such a file, which holds several tensors.
    Part(Box<FilePart>),
    /// In memory (torch_npu.hooks with all values, checkpoints).
    Tensor(Tensor),
    /// A few elements, then max, min, mean (torch_npu.hooks with samples).
    Sample(Vec<f64>),
    /// In several ranks, from which they are put together when they are needed.
    Assembled(Arc<dyn AssembledTensor>),
    /// The dump names a file in a way that is refused, with the reason.
    Refused(String),
}

/// How the elements of a distributed tensor are spread over ranks; a rank records its own part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshPlacement {
    /// The sizes of the mesh of ranks, outermost first.
    pub sizes: Vec<u64>,
    /// The numbers of the ranks, row by row.
    pub ranks: Vec<u64>,
    /// One for each dimension of the mesh, as torch writes it: `R`, `S(0)`, `P(sum)`.
    pub placements: Vec<String>,
}

impl Data {
    /// The file of the elements, if they are in one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Data::File(name) => Some(name),
            Data::Part(part) => Some(&part.file),
            Data::None | Data::Tensor(_) | Data::Sample(_) | Data::Assembled(_) | Data::Refused(_) => None,
        }
    }

    /// The same, to change it.
    pub(crate) fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            Data::File(name) => Some(name),
            Data::Part(part) => Some(&mut part.file),
            Data::None | Data::Tensor(_) | Data::Sample(_) | Data::Assembled(_) | Data::Refused(_) => None,
        }
    }
}

impl TensorEntry {
    /// A tensor of which only dtype and shape are known.
    pub(crate) fn bare(dtype: String, shape: Option<Vec<u64>>) -> TensorEntry {
        TensorEntry {
            class: String::new(),
            dtype,
            shape,
            strides: None,
            stats: [const { Json::Null }; SUMMARIES],
            requires_grad: Json::Null,
            digest: None,
            data: Data::None,
            source: None,
            recompute: false,
            is_blank: false,
            is_changed: false,
            further: Vec::new(),
            mesh: None,
        }
    }

    /// How many elements are not finite, if Ulpscope recorded it and there are any.
    pub fn non_finite(&self) -> Option<NonFiniteCounts> {
        let count = |key: &str| {
            let (_, value) = self.further.iter().find(|(statistic, _)| statistic.key == key)?;
            if let Json::Int(count) = value { u64::try_from(*count).ok() } else { None }
        };
        let (nan, inf) = (count("nan"), count("inf"));
        (nan.is_some() || inf.is_some())
            .then(|| NonFiniteCounts { nan: nan.unwrap_or(0), inf: inf.unwrap_or(0) })
    }

    /// The dtype, if it can be read.
    pub fn dtype(&self) -> Option<DType> {
        ulpscope_formats::pkl_lines::dtype_named(&self.dtype)
    }

    /// The number of elements of its shape.
    pub fn count(&self) -> Option<u64> {
        self.shape.as_ref()?.iter().try_fold(1u64, |count, &dim| count.checked_mul(dim))
    }

    /// The number of bytes of its elements, if dtype and shape are known.
    pub fn size(&self) -> u64 {
        let width = self.dtype().map_or(0, |dtype| dtype.size() as u64);
        self.count().and_then(|count| count.checked_mul(width)).unwrap_or(0)
    }

    /// Whether all elements are available.
    pub fn has_data(&self) -> bool {
        matches!(self.data, Data::File(_) | Data::Part(_) | Data::Tensor(_) | Data::Assembled(_))
    }
}
