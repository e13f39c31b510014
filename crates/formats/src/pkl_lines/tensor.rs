//! Tensors from lines that contain every element.

use half::{bf16, f16};
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

/// A number as a double, unless that changes its value.
fn exact_number(values: &Values, index: usize) -> Option<f64> {
    let number = values.number(index)?;
    match values {
        Values::Ints(ints) if number as i128 != i128::from(ints[index]) => None,
        _ => Some(number),
    }
}

/// The elements in a dtype, if it represents each of them exactly.
fn pack(values: &Values, dtype: DType) -> Option<Vec<u8>> {
    fn all<const N: usize>(values: &Values, encode: impl Fn(f64) -> Option<[u8; N]>) -> Option<Vec<u8>> {
        let mut packed = Vec::with_capacity(values.len().checked_mul(N)?);
        for index in 0..values.len() {
            packed.extend_from_slice(&encode(exact_number(values, index)?)?);
        }
        Some(packed)
    }
    /// An integer is exact if it survives the round trip.
    macro_rules! integer {
        ($int:ty) => {
            match values {
                Values::Ints(ints) => {
                    let mut packed = Vec::with_capacity(ints.len().checked_mul(size_of::<$int>())?);
                    for &value in ints {
                        packed.extend_from_slice(&<$int>::try_from(value).ok()?.to_le_bytes());
                    }
                    Some(packed)
                }
                _ => all(values, |value| {
                    let cast = value as $int;
                    // Compared as integers: the largest integer, as a double, is one beyond the range.
                    (cast as f64 == value && cast as i128 == value as i128).then(|| cast.to_le_bytes())
                }),
            }
        };
    }
    let same = |value: f64, back: f64| value == back || (value.is_nan() && back.is_nan());
    match dtype {
        DType::F64 => all(values, |value| Some(value.to_le_bytes())),
        DType::F32 => {
            all(values, |value| same(value, (value as f32).into()).then(|| (value as f32).to_le_bytes()))
        }
        DType::F16 => all(values, |value| {
            let cast = f16::from_f64(value);
            same(value, cast.to_f64()).then(|| cast.to_le_bytes())
        }),
        DType::BF16 => all(values, |value| {
            let cast = bf16::from_f64(value);
            same(value, cast.to_f64()).then(|| cast.to_le_bytes())
        }),
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::Bool => all(values, |value| match value {
            0.0 => Some([0]),
            1.0 => Some([1]),
            _ => None,
        }),
        _ => match dtype.float8_table() {
            Some(table) => all(values, |value| {
                let code = table.iter().position(|&decoded| {
                    same(value, decoded.into()) && decoded.is_sign_negative() == value.is_sign_negative()
                });
                code.or_else(|| table.iter().position(|&decoded| same(value, decoded.into())))
                    .and_then(|code| u8::try_from(code).ok())
                    .map(|code| [code])
            }),
            None => None,
        },
    }
}
