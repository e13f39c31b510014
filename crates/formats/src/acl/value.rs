//! Converts a dump file to a plain value and back, for callers that only need its tensors.

use ulpscope_tensor::DType;

use super::{DataType, DumpFile, DumpTensor, Format, OriginalOp, Region};
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::tensor::Tensor;
use crate::value::Value;

/// The version that is written.
const VERSION: &str = "2.0";

impl DumpFile {
    /// Every tensor under the name that the older tools give its file: `input.0`, `output.0`, `l1buffer.0`,
    /// `space.0`. Buffers and workspaces are bytes. A tensor that cannot be read says why.
    pub fn to_value(&self) -> Value {
        let mut pairs = Vec::new();
        for (name, tensors) in [("input", &self.inputs), ("output", &self.outputs)] {
            for (index, tensor) in tensors.iter().enumerate() {
                let value = match tensor.tensor() {
                    Ok(tensor) => Value::Tensor(tensor),
                    Err(error) => Value::Unread(error.to_string()),
                };
                pairs.push((Value::Str(format!("{name}.{index}")), value));
            }
        }
        for (name, regions) in [("l1buffer", &self.buffers), ("space", &self.spaces)] {
            for (index, region) in regions.iter().enumerate() {
                let bytes = Tensor::contiguous(DType::U8, vec![region.data.len()], region.data.clone());
                let value = match (region.cut_short, bytes) {
                    (Some(cut), _) => Value::Unread(cut.error().to_string()),
                    (None, Ok(tensor)) => Value::Tensor(tensor),
                    (None, Err(error)) => Value::Unread(error.to_string()),
                };
                pairs.push((Value::Str(format!("{name}.{index}")), value));
            }
        }
        Value::Dict(pairs)
    }

    /// A dump of every tensor of a value, in order and in plain layout. A name that begins with `input.` becomes an
    /// input; bytes named `l1buffer.` or `space.` become a buffer or a workspace; everything else becomes an output.
    /// The format has no field for the name of an output, so it is stored as the name of its original operator.
    pub fn from_value(value: &Value, op_name: &str) -> Result<DumpFile, Error> {
        let mut dump =
            DumpFile { version: VERSION.into(), op_name: op_name.to_owned(), ..DumpFile::default() };
        for (name, tensor) in value.tensors() {
            let data = packed(tensor);
            if tensor.dtype() == DType::U8 && name.starts_with("l1buffer.") {
                dump.buffers.push(Region { kind: 0, data, cut_short: None });
                continue;
            }
            if tensor.dtype() == DType::U8 && name.starts_with("space.") {
                dump.spaces.push(Region { kind: 0, data, cut_short: None });
                continue;
            }
            let Some(data_type) = DataType::of(tensor.dtype()) else {
                let message =
                    format!("a dump file has no type for {}; convert it to float16 first", tensor.dtype());
                return Err(Error::whole(Fault::Unsupported(message)).in_part(&name));
            };
            let shape: Vec<u64> = tensor.shape().iter().map(|&dim| dim as u64).collect();
            let mut made = DumpTensor {
                data_type,
                format: Format::ND,
                original_shape: shape.clone(),
                shape,
                data,
                ..DumpTensor::default()
            };
            if name.starts_with("input.") {
                dump.inputs.push(made);
                continue;
            }
            if !name.is_empty() && !name.starts_with("output.") {
                made.original_op = Some(OriginalOp { name, output_index: 0, data_type, format: Format::ND });
            }
            dump.outputs.push(made);
        }
        Ok(dump)
    }
}

/// The elements in row-major order: shared if they are stored so, copied otherwise.
fn packed(tensor: &Tensor) -> Bytes {
    let view = tensor.view();
    match view.as_packed() {
        Some([]) => Bytes::from(Vec::new()),
        Some(packed) => tensor.storage().slice(tensor.origin()..tensor.origin() + packed.len()),
        None => view.to_packed().into_owned().into(),
    }
}
