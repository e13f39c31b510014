//! The forms of a line.

use ulpscope_tensor::{DType, Scalar};

use crate::json::Json;

/// Numbers at the end of a sample: max, min, mean.
const SAMPLED_STATS: usize = 3;

/// One line. A line of no known form is kept unchanged in [`Line::Other`].
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// torch_npu.hooks: `[name, values, dtype, shape]`.
    HooksTensor {
        /// `{running number}_{Prefix}_{op}_{direction}_{input|output}{.index}`; overflow files omit the number.
        name: String,
        /// Every element, or up to ten of them followed by max, min and mean.
        values: Values,
        /// `torch.float32` and so on.
        dtype: String,
        /// Dimensions.
        shape: Vec<u64>,
    },
    /// torch_npu.hooks, overflow files: `[name, value]` of an argument that is not a tensor.
    HooksValue {
        /// As for a tensor.
        name: String,
        /// The argument.
        value: Json,
    },
    /// torch_npu.hooks, overflow files: `["{call}_stack_info.{i}", "FrameInfo(...)"]`.
    HooksFrame {
        /// The call, `_stack_info.` and the number of the frame, innermost first.
        name: String,
        /// The frame, as Python printed it.
        frame: String,
    },
    /// ptdbg_ascend: `[name, dump_step, payload, dtype, shape, statistics]`.
    PtdbgEntry {
        /// `{Prefix}_{op}_{call}_{direction}_{input|output}{.index}`, or with dots throughout from 6.0 on.
        name: String,
        /// 0; 1 for single modules; 101 in overflow dumps.
        dump_step: i128,
        /// Empty, a checksum, or values.
        payload: Payload,
        /// `torch.float32`, `<class 'int'>` and so on.
        dtype: String,
        /// Dimensions; arguments that are not tensors have the text `[]`.
        shape: Shape,
        /// Max, min, mean, and from 6.0 on the norm. Empty lists where there are none, `Nan` for a norm.
        stats: Vec<Json>,
    },
    /// ptdbg_ascend: `["{call}_stack_info", [[file, line, function, code], ...]]`.
    Stack {
        /// The call and `_stack_info`, or `.stack_info` from 6.0 on.
        name: String,
        /// Innermost first.
        frames: Vec<Frame>,
    },
    /// Any other list.
    Other(Json),
}

/// The third element of a ptdbg_ascend line.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// Values recorded in the line; typically the empty list.
    Values(Values),
    /// The CRC-32 of the tensor's bytes in eight hexadecimal digits (6.0, md5 mode).
    Digest(String),
}

/// The shape as the line writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Of a tensor.
    Dims(Vec<u64>),
    /// The text `[]` of an argument that is not a tensor.
    Text(String),
}

/// One frame of a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Source file.
    pub file: String,
    /// Line number, as text.
    pub line: String,
    /// Function.
    pub function: String,
    /// The source line, if it was found.
    pub code: Option<String>,
}

/// A list of numbers in the narrowest type for its kind: it may be a whole tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Floats only, or nothing at all.
    Floats(Vec<f64>),
    /// Integers only.
    Ints(Vec<i64>),
    /// A mixture, or something that is not a number.
    Mixed(Vec<Json>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Floats(values) => values.len(),
            Values::Ints(values) => values.len(),
            Values::Mixed(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at `index` as a double; nothing if it is not a number or out of range.
    pub fn number(&self, index: usize) -> Option<f64> {
        match self {
            Values::Floats(values) => values.get(index).copied(),
            Values::Ints(values) => values.get(index).map(|&value| value as f64),
            Values::Mixed(values) => match values.get(index)? {
                Json::Bool(flag) => Some(f64::from(u8::from(*flag))),
                value => value.as_f64(),
            },
        }
    }

    /// The number at `index` exactly; nothing if it is not a number or out of range.
    pub fn scalar(&self, index: usize) -> Option<Scalar> {
        match self {
            Values::Ints(values) => values.get(index).map(|&value| Scalar::Int(value.into())),
            Values::Floats(_) | Values::Mixed(_) => self.number(index).map(Scalar::Float),
        }
    }

    /// Max, min and mean, the numbers at the end of a sample; a sample has no norm. With fewer numbers there are
    /// none.
    pub fn sampled_stats(&self) -> [Json; 4] {
        let stat = |back: usize| {
            let at = self.len().checked_sub(back).filter(|_| self.len() >= SAMPLED_STATS);
            at.and_then(|at| self.number(at)).map_or(Json::Null, Json::Float)
        };
        [stat(3), stat(2), stat(1), Json::Null]
    }

    /// The same as a list of JSON values.
    pub fn into_json(self) -> Vec<Json> {
        match self {
            Values::Floats(values) => values.into_iter().map(Json::Float).collect(),
            Values::Ints(values) => values.into_iter().map(|value| Json::Int(value.into())).collect(),
            Values::Mixed(values) => values,
        }
    }
}

impl Line {
    /// The name at the start of the line.
    pub fn name(&self) -> Option<&str> {
        match self {
            Line::HooksTensor { name, .. }
            | Line::HooksValue { name, .. }
            | Line::HooksFrame { name, .. }
            | Line::PtdbgEntry { name, .. }
            | Line::Stack { name, .. } => Some(name),
            Line::Other(_) => None,
        }
    }
}

/// The dtype of a text: `torch.float32`, but not `<class 'float'>`, which is a Python number.
pub fn dtype_named(text: &str) -> Option<DType> {
    text.strip_prefix("torch.").and_then(|name| name.parse().ok())
}
