//! One argument or result of a call.

use ulpscope_formats::Tensor;
use ulpscope_formats::json::Json;
use ulpscope_kernels::{SUMMARIES, Statistic};
use ulpscope_tensor::DType;

/// What an entry is to its call. The order is the one that entries of a call are listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// An argument; of a backward call, the gradient of a result (torch_npu.hooks calls that an output).
    Input,
    /// A parameter of the module.
    Parameter,
    /// A result; of a backward call, the gradient of an argument.
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
    /// The name its tool gives it in results: `Functional.linear.0.forward.input.0`,
    /// `Functional_conv2d_0_forward_input.0`, `3_Functional_conv2d_forward_output`.
    pub name: String,
    /// What it is to its call.
    pub role: Role,
    /// Where in that role: `0`, `0.2`, `weight`, `dim`; the same for the same entry in every tool's spelling.
    pub path: String,
    /// What it is.
    pub content: Content,
}

/// What an entry holds.
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

/// What a dump says of a tensor.
#[derive(Clone, Debug)]
pub struct TensorEntry {
    /// The class as written (`torch.Tensor`, `torch.distributed.tensor.DTensor`); empty where the tool does not say.
    pub class: String,
    /// The dtype as written: `torch.float32`.
    pub dtype: String,
    /// The dimensions; nothing where they are not a list of integers from 0 up.
    pub shape: Option<Vec<u64>>,
    /// The summaries of [`ulpscope_kernels::RECORDED`] as written: numbers, truth values, words. `Null` where there is none.
    pub stats: [Json; SUMMARIES],
    /// Whether it requires a gradient, as written; `Null` where the tool does not say.
    pub requires_grad: Json,
    /// The digest: a CRC-32 in eight hexadecimal digits, or `0x` and sixteen.
    pub digest: Option<String>,
    /// Its elements.
    pub data: Data,
    /// The entry that made it, of an input in a dump of Ulpscope: `Functional.linear.0.forward.output.0`, an input of
    /// a call that changed it in place, `parameter:fc.weight`, `buffer:bn.running_mean`, or `outside`.
    pub source: Option<String>,
    /// Whether it belongs to a call that was made again for the backward pass.
    pub recompute: bool,
    /// Whether Ulpscope found memory that nothing was written to yet, and has no numbers of it for that reason.
    pub is_blank: bool,
    /// The other statistics of [`ulpscope_kernels::RECORDED`] as written, in their order. None of them is there where the
    /// tool does not record them, or has no reason to: all elements are finite.
    pub further: Vec<(&'static Statistic, Json)>,
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
    /// In this file of the rank's folder of tensors; `/` between folders where it lies deeper.
    File(String),
    /// Here, read already (torch_npu.hooks with all values, checkpoints).
    Tensor(Tensor),
    /// A few of them, then max, min, mean (torch_npu.hooks with samples).
    Sample(Vec<f64>),
    /// The dump names a file in a way that cannot be followed; says why.
    Refused(String),
}

impl TensorEntry {
    /// A tensor of which no more than dtype and shape is known.
    pub(crate) fn bare(dtype: String, shape: Option<Vec<u64>>) -> TensorEntry {
        TensorEntry {
            class: String::new(),
            dtype,
            shape,
            stats: [const { Json::Null }; SUMMARIES],
            requires_grad: Json::Null,
            digest: None,
            data: Data::None,
            source: None,
            recompute: false,
            is_blank: false,
            further: Vec::new(),
        }
    }

    /// How much of it is not finite, where Ulpscope recorded it and any of it is not.
    pub fn non_finite(&self) -> Option<NonFiniteCounts> {
        let count = |key: &str| {
            let (_, value) = self.further.iter().find(|(statistic, _)| statistic.key == key)?;
            if let Json::Int(count) = value { u64::try_from(*count).ok() } else { None }
        };
        let (nan, inf) = (count("nan"), count("inf"));
        (nan.is_some() || inf.is_some())
            .then(|| NonFiniteCounts { nan: nan.unwrap_or(0), inf: inf.unwrap_or(0) })
    }

    /// The dtype, if it is one that can be read.
    pub fn dtype(&self) -> Option<DType> {
        ulpscope_formats::pkl_lines::dtype_named(&self.dtype)
    }

    /// How many elements its shape gives.
    pub fn count(&self) -> Option<u64> {
        self.shape.as_ref()?.iter().try_fold(1u64, |count, &dim| count.checked_mul(dim))
    }

    /// How many bytes its elements take, as far as dtype and shape tell.
    pub fn size(&self) -> u64 {
        let width = self.dtype().map_or(0, |dtype| dtype.size() as u64);
        self.count().and_then(|count| count.checked_mul(width)).unwrap_or(0)
    }

    /// Whether there are elements to be had, all of them.
    pub fn has_data(&self) -> bool {
        matches!(self.data, Data::File(_) | Data::Tensor(_))
    }
}
