//! Tensors from lines that contain every element.

use ulpscope_tensor::{DType, element_count};

use super::kind::{Kind, kind};
use super::line::{Line, Values, dtype_named};
use super::lines::Lines;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, shortened};
use crate::json::Json;
use crate::tensor::Tensor;
use crate::value::Value;

/// Reads a file of torch_npu.hooks that contains every element: name → tensor, in file order. Arguments that are
/// not tensors keep their value. A line that cannot be read is named and kept as [`Value::Unread`]; the others are
/// still read.
pub fn to_value(bytes: &Bytes) -> Result<Value, Error> {
    match kind(bytes) {
        Some(Kind::HooksFull | Kind::HooksOverflow) => {}
        Some(Kind::HooksSample) => {
            return Err(Error::whole(Fault::Unsupported(
                "holds samples of tensors, not whole tensors: record it again with sample=False".to_owned(),
            )));
        }
        Some(Kind::Ptdbg4 | Kind::Ptdbg6) => {
            return Err(Error::whole(Fault::Unsupported(
                "holds statistics only: the tensors are in the .npy files of the folder beside it".to_owned(),
            )));
        }
        None => {
            return Err(Error::whole(Fault::malformed(
                "lines of [name, values, dtype, shape]",
                "no line of that form among the first",
            )));
        }
    }
    let mut pairs = Vec::new();
    for line in Lines::new(bytes) {
        match line {
            Err(error) => {
                pairs.push((Value::Str("unreadable line".to_owned()), Value::Unread(error.to_string())));
            }
            Ok((number, Line::HooksTensor { name, values, dtype, shape })) => {
                let value = match tensor_of(&values, &dtype, &shape) {
                    Ok(tensor) => Value::Tensor(tensor),
                    Err(fault) => Value::Unread(format!("line {number}: {fault}")),
                };
                pairs.push((Value::Str(name), value));
            }
            Ok((number, other)) => {
                let name = other.name().map_or_else(|| format!("line {number}"), str::to_owned);
                pairs.push((Value::Str(name), plain_value(other)));
            }
        }
    }
    Ok(Value::Dict(pairs))
}

fn plain_value(line: Line) -> Value {
    match line {
        Line::HooksFrame { frame, .. } => Value::Str(frame),
        Line::HooksValue { value, .. } => match value {
            Json::Null => Value::None,
            Json::Bool(flag) => Value::Bool(flag),
            Json::Int(number) => Value::Int(number),
            Json::Float(number) => Value::Float(number),
            Json::Str(text) => Value::Str(text),
            other => Value::Opaque(format!("an argument written as {}", other.describe())),
        },
        _ => Value::Unread("not a line of torch_npu.hooks".to_owned()),
    }
}

/// The tensor of a line that contains every element.
///
/// The tool casts to float32 before it prints. The dtype that it names is used if it represents every number exactly,
/// otherwise float32 (or float64, for numbers that float32 cannot represent).
pub fn tensor_of(values: &Values, dtype: &str, shape: &[u64]) -> Result<Tensor, Fault> {
    let shape =
        shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<usize>, _>>().map_err(|_| {
            Fault::malformed("a shape that fits an address", shortened(&format!("{shape:?}")))
        })?;
    match element_count(&shape) {
        Some(count) if count == values.len() => {}
        Some(count) => {
            return Err(Fault::malformed(
                format!("{count} values for the shape {}", shortened(&format!("{shape:?}"))),
                values.len().to_string(),
            ));
        }
        None => {
            return Err(Fault::malformed("a shape that fits an address", shortened(&format!("{shape:?}"))));
        }
    }
    let named = dtype_named(dtype)
        .ok_or_else(|| Fault::malformed("the name of a torch dtype", format!("{:?}", shortened(dtype))))?;
    for dtype in [named, DType::F32, DType::F64] {
        if let Some(packed) = pack(values, dtype) {
            return Ok(Tensor::contiguous(dtype, shape, packed.into())?);
        }
    }
    Err(Fault::malformed("numbers", "a value that is not a number or not exact in any float type"))
}

/// The elements in a dtype, if it represents each of them exactly.
fn pack(values: &Values, dtype: DType) -> Option<Vec<u8>> {
    let mut packed = Vec::with_capacity(values.len().checked_mul(dtype.size())?);
    let is_exact = |index| values.scalar(index).is_some_and(|value| value.write_exact(dtype, &mut packed));
    (0..values.len()).all(is_exact).then_some(packed)
}
