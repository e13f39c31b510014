//! Reads and writes the protobuf header of a dump file.

use std::ops::Range;

use super::{DataType, DumpFile, DumpTensor, Format, MAX_ENTRIES, OriginalOp, Region, Sizes};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place};
use crate::protobuf::{self as wire, Field, Message};
use crate::tensor::MAX_RANK;

/// Inputs and outputs have the same fields in the same order, under different field numbers. Zero: the field does
/// not exist.
struct Numbers {
    shape: u64,
    original_op: u64,
    data: u64,
    size: u64,
    original_shape: u64,
    sub_format: u64,
    address: u64,
    dim_range: u64,
    offset: u64,
}

const OUTPUT: Numbers = Numbers {
    shape: 3,
    original_op: 4,
    data: 5,
    size: 6,
    original_shape: 7,
    sub_format: 8,
    address: 9,
    dim_range: 10,
    offset: 11,
};

const INPUT: Numbers = Numbers {
    shape: 3,
    original_op: 0,
    data: 4,
    size: 5,
    original_shape: 6,
    sub_format: 7,
    address: 8,
    dim_range: 0,
    offset: 9,
};

/// Reads the header in a range of the file, and the sizes of the data after it.
pub(super) fn read(file: &Bytes, range: Range<usize>) -> Result<(DumpFile, Sizes), Error> {
    let (mut dump, mut sizes) = (DumpFile::default(), Sizes::default());
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => dump.version = field.text(file, "version")?,
            2 => dump.dump_time = field.number_value("dump_time")?,
            3 => {
                let (tensor, size) = read_tensor(file, field.range("output")?, &OUTPUT)?;
                push(&mut dump.outputs, tensor, "outputs", &field)?;
                sizes.outputs.push(size);
            }
            4 => {
                let (tensor, size) = read_tensor(file, field.range("input")?, &INPUT)?;
                push(&mut dump.inputs, tensor, "inputs", &field)?;
                sizes.inputs.push(size);
            }
            5 => {
                let (region, size) = read_region(file, field.range("buffer")?)?;
                push(&mut dump.buffers, region, "buffers", &field)?;
                sizes.buffers.push(size);
            }
            6 => dump.op_name = field.text(file, "op_name")?,
            7 => {
                let attr = read_attr(file, field.range("attr")?)?;
                push(&mut dump.attrs, attr, "attributes", &field)?;
            }
            8 => {
                let (region, size) = read_region(file, field.range("space")?)?;
                push(&mut dump.spaces, region, "workspaces", &field)?;
                sizes.spaces.push(size);
            }
            _ => {}
        }
    }
    Ok((dump, sizes))
}

/// Reads a file that consists of the protobuf message alone, with the elements inside it.
pub(super) fn read_bare(file: &Bytes) -> Result<DumpFile, Error> {
    let (dump, _) = read(file, 0..file.len())?;
    let entries = dump.inputs.len() + dump.outputs.len() + dump.buffers.len() + dump.spaces.len();
    if entries == 0 {
        return Err(Error::whole(Fault::malformed("a dump with inputs or outputs", "none")));
    }
    Ok(dump)
}

fn read_tensor(file: &Bytes, range: Range<usize>, numbers: &Numbers) -> Result<(DumpTensor, u64), Error> {
    let mut tensor = DumpTensor::default();
    let mut size = 0;
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => tensor.data_type = DataType::from_header(field.i32_value("data_type")?),
            2 => tensor.format = Format(field.i32_value("format")?),
            n if n == numbers.shape => read_shape(file, &field, &mut tensor.shape)?,
            n if n == numbers.original_op => {
                tensor.original_op = Some(read_original_op(file, field.range("original_op")?)?);
            }
            n if n == numbers.data => tensor.data = file.slice(field.range("data")?),
            n if n == numbers.size => size = field.number_value("size")?,
            n if n == numbers.original_shape => read_shape(file, &field, &mut tensor.original_shape)?,
            n if n == numbers.sub_format => tensor.sub_format = field.i32_value("sub_format")?,
            n if n == numbers.address => tensor.address = field.number_value("address")?,
            n if n == numbers.dim_range => {
                let pair = read_dim_range(file, field.range("dim_range")?)?;
                tensor.dim_range.push(pair);
                check_count(tensor.dim_range.len(), MAX_RANK, "number of dimensions", &field)?;
            }
            n if n == numbers.offset => tensor.offset = field.number_value("offset")?,
            _ => {}
        }
    }
    Ok((tensor, size))
}

fn read_shape(file: &Bytes, field: &Field, dims: &mut Vec<u64>) -> Result<(), Error> {
    let mut message = Message::new(file, field.range("shape")?);
    while let Some(field) = message.next_field()? {
        if field.number == 1 {
            field.extend(file, "dimensions", MAX_RANK, dims)?;
        }
    }
    Ok(())
}

fn read_original_op(file: &Bytes, range: Range<usize>) -> Result<OriginalOp, Error> {
    let mut op = OriginalOp::default();
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => op.name = field.text(file, "name")?,
            2 => op.output_index = field.number_value("output_index")? as u32,
            3 => op.data_type = DataType::from_header(field.i32_value("data_type")?),
            4 => op.format = Format(field.i32_value("format")?),
            _ => {}
        }
    }
    Ok(op)
}

fn read_dim_range(file: &Bytes, range: Range<usize>) -> Result<(u64, u64), Error> {
    let mut pair = (0, 0);
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => pair.0 = field.number_value("dim_start")?,
            2 => pair.1 = field.number_value("dim_end")?,
            _ => {}
        }
    }
    Ok(pair)
}

fn read_region(file: &Bytes, range: Range<usize>) -> Result<(Region, u64), Error> {
    let mut region = Region { kind: 0, data: Bytes::from(Vec::new()), cut_short: None };
    let mut size = 0;
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => region.kind = field.i32_value("type")?,
            2 => region.data = file.slice(field.range("data")?),
            3 => size = field.number_value("size")?,
            _ => {}
        }
    }
    Ok((region, size))
}

fn read_attr(file: &Bytes, range: Range<usize>) -> Result<(String, String), Error> {
    let mut attr = (String::new(), String::new());
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => attr.0 = field.text(file, "name")?,
            2 => attr.1 = field.text(file, "value")?,
            _ => {}
        }
    }
    Ok(attr)
}

fn push<T>(list: &mut Vec<T>, item: T, what: &'static str, field: &Field) -> Result<(), Error> {
    list.push(item);
    check_count(list.len(), MAX_ENTRIES, what, field)
}

fn check_count(found: usize, limit: usize, what: &'static str, field: &Field) -> Result<(), Error> {
    if found <= limit {
        return Ok(());
    }
    let (limit, found) = (limit as u64, found as u64);
    Err(Error::at(Place::Byte(field.at as u64), Fault::TooLarge { what, limit, found }))
}

/// The header of a dump, with fields in ascending order, as protobuf writes it.
pub(super) fn compose(dump: &DumpFile) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_text(&mut out, 1, &dump.version);
    wire::put_number(&mut out, 2, dump.dump_time);
    for tensor in &dump.outputs {
        wire::put_bytes(&mut out, 3, &compose_tensor(tensor, &OUTPUT));
    }
    for tensor in &dump.inputs {
        wire::put_bytes(&mut out, 4, &compose_tensor(tensor, &INPUT));
    }
    for buffer in &dump.buffers {
        wire::put_bytes(&mut out, 5, &compose_region(buffer));
    }
    wire::put_text(&mut out, 6, &dump.op_name);
    for (name, value) in &dump.attrs {
        let mut attr = Vec::new();
        wire::put_text(&mut attr, 1, name);
        wire::put_text(&mut attr, 2, value);
        wire::put_bytes(&mut out, 7, &attr);
    }
    for space in &dump.spaces {
        wire::put_bytes(&mut out, 8, &compose_region(space));
    }
    out
}

fn compose_tensor(tensor: &DumpTensor, numbers: &Numbers) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_number(&mut out, 1, sign_extended(tensor.data_type.header_number()));
    wire::put_number(&mut out, 2, sign_extended(tensor.format.0));
    // A scalar has a shape without dimensions. Dumps write it explicitly.
    wire::put_bytes(&mut out, numbers.shape, &compose_shape(&tensor.shape));
    if let Some(op) = tensor.original_op.as_ref().filter(|_| numbers.original_op != 0) {
        let mut inner = Vec::new();
        wire::put_text(&mut inner, 1, &op.name);
        wire::put_number(&mut inner, 2, op.output_index.into());
        wire::put_number(&mut inner, 3, sign_extended(op.data_type.header_number()));
        wire::put_number(&mut inner, 4, sign_extended(op.format.0));
        wire::put_bytes(&mut out, numbers.original_op, &inner);
    }
    wire::put_number(&mut out, numbers.size, tensor.data.len() as u64);
    if !tensor.original_shape.is_empty() {
        wire::put_bytes(&mut out, numbers.original_shape, &compose_shape(&tensor.original_shape));
    }
    wire::put_number(&mut out, numbers.sub_format, sign_extended(tensor.sub_format));
    wire::put_number(&mut out, numbers.address, tensor.address);
    if numbers.dim_range != 0 {
        for &(start, end) in &tensor.dim_range {
            let mut pair = Vec::new();
            wire::put_number(&mut pair, 1, start);
            wire::put_number(&mut pair, 2, end);
            wire::put_bytes(&mut out, numbers.dim_range, &pair);
        }
    }
    wire::put_number(&mut out, numbers.offset, tensor.offset);
    out
}

fn compose_region(region: &Region) -> Vec<u8> {
    let mut out = Vec::new();
    wire::put_number(&mut out, 1, sign_extended(region.kind));
    wire::put_number(&mut out, 3, region.data.len() as u64);
    out
}

fn compose_shape(dims: &[u64]) -> Vec<u8> {
    let mut shape = Vec::new();
    if !dims.is_empty() {
        let mut packed = Vec::new();
        for &dim in dims {
            wire::put_varint(&mut packed, dim);
        }
        wire::put_bytes(&mut shape, 1, &packed);
    }
    shape
}

/// Protobuf sign-extends a signed 32-bit number to 64 bits.
fn sign_extended(value: i32) -> u64 {
    i64::from(value) as u64
}
